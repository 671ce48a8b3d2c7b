"""One process of the bus: its roles, its HTTP server, its gauges."""

from __future__ import annotations

from bus.serving.announcement import Announcement
from bus.serving.gateway import Gateway
from bus.serving.place import Place
from bus.serving.process import serve

__all__ = ["Announcement", "Gateway", "Place", "serve"]
