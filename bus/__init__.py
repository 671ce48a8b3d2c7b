"""Pier's SDK: ``send()`` a message once, and from then on the bus owns it.

>>> from bus import Bus
>>> with Bus("http://127.0.0.1:8700", spool="./spool", source="order-service") as bus:  # doctest: +SKIP
...     bus.send("order.cancelled", {"order": 42}, biz_id="42", key="42")

Importing starts nothing and loads nothing heavy; the names below are loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.client import AsyncBus, Bus, BusHandler
    from bus.errors import BusError, InvalidDestination, MessageTooLarge, SpoolFull

__all__ = ["AsyncBus", "Bus", "BusError", "BusHandler", "InvalidDestination", "MessageTooLarge", "SpoolFull"]

_HOMES = {
    "AsyncBus": "bus.client",
    "Bus": "bus.client",
    "BusError": "bus.errors",
    "BusHandler": "bus.client",
    "InvalidDestination": "bus.errors",
    "MessageTooLarge": "bus.errors",
    "SpoolFull": "bus.errors",
}


def __getattr__(name: str) -> Any:
    """Load a public name at first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
