"""Names of destinations and subscriptions on the broker; reversible, since no code or name has a slash."""

from __future__ import annotations

from typing import Final, NamedTuple

_PREFIX: Final = "pier"


class Lane(NamedTuple):
    """A subscription of a destination: one queue on each cluster."""

    destination: str
    subscription: str


def exchange_of(destination: str) -> str:
    """Return the name of a destination's topic exchange."""
    return f"{_PREFIX}.{destination}"


def queue_of(lane: Lane) -> str:
    """Return the name of a subscription's queue."""
    return f"{_PREFIX}/{lane.destination}/{lane.subscription}"


def lane_of(queue: str) -> Lane | None:
    """Undo ``queue_of``; None for a queue that is not ours."""
    prefix, _, rest = queue.partition("/")
    destination, _, subscription = rest.partition("/")
    if prefix != _PREFIX or not destination or not subscription or "/" in subscription:
        return None
    return Lane(destination, subscription)
