"""The SDK: ``send()`` is durable on the producer's own disk, and a daemon brings it to the receiver.

A `Bus` is a shell around the `bus.client.outbox.Outbox` of the present process: a spool directory of its own, and one
daemon thread that sends what waits there in batches. A record of the spool is the line that the receiver gets, built
once at ``send()``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.client.aio import AsyncBus
    from bus.client.logs import BusHandler
    from bus.client.sync import Bus

__all__ = ["AsyncBus", "Bus", "BusHandler"]

_HOMES = {"AsyncBus": "bus.client.aio", "Bus": "bus.client.sync", "BusHandler": "bus.client.logs"}


def __getattr__(name: str) -> Any:
    """Load a class at first use: the command line needs other parts of this package, and starts faster without."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bus.client' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
