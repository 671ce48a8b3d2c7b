"""Names of strictly ordered destinations on a group's broker; reversible, and apart from all other names."""

from __future__ import annotations

import uuid
from typing import Final

from bus.transports.rabbitmq.names import Lane

_PREFIX: Final = "pier-strict"


def exchange_of(destination: str) -> str:
    """Return the name of a destination's topic exchange."""
    return f"{_PREFIX}.{destination}"


def data_mark_of(destination: str, mark: str) -> str:
    """Return the name of the exchange that is there as long as the data of a destination."""
    return f"{_PREFIX}-mark.{mark}.{destination}"


def own_queue() -> str:
    """Return a new name for a queue of one connection alone."""
    return f"{_PREFIX}-own/{uuid.uuid4().hex}"


def queue_of(lane: Lane) -> str:
    """Return the name of a subscription's queue."""
    return f"{_PREFIX}/{lane.destination}/{lane.subscription}"
