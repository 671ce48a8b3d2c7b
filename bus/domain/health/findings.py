"""What the pipeline finds: series outside of their norms."""

from __future__ import annotations

import enum

import msgspec


class Metric(enum.StrEnum):
    """What a norm is of: messages an hour, p95 in milliseconds, share of attempts that failed."""

    VOLUME = "volume"
    LATENCY = "latency"
    FAILURE = "failure"


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a destination, or of a subscription, that is outside of its norm.

    Attributes
    ----------
    subscription
        Empty for what the destination accepted.
    since
        When the last hour began that was out, in milliseconds; ``value`` is that hour's.
    low, high
        The limits of that hour; None for no limit.
    """

    destination: str
    subscription: str
    metric: Metric
    since: int
    value: float
    norm: float
    low: float | None = None
    high: float | None = None
