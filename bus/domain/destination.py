"""A destination: the code that producers send to, and how its messages travel."""

from __future__ import annotations

import enum

import msgspec

from bus.domain.message import DEFAULT_MAX_BYTES


class TransportName(enum.StrEnum):
    """The roads that a destination can take."""

    DIRECT = "direct"
    KAFKA = "kafka"
    RABBITMQ = "rabbitmq"
    NSQ = "nsq"


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one destination.

    Attributes
    ----------
    retention_days
        How long messages are kept after they were received.
    store_rate
        Store writes a second for this destination, None for no limit of its own.
    max_bytes
        The largest body accepted.
    paused
        Messages are accepted and held.
    """

    code: str
    transport: TransportName = TransportName.DIRECT
    cluster: str | None = None
    retention_days: int = 30
    store_rate: float | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    paused: bool = False
    version: int = 0
