"""Names of lanes. Those of a destination begin with its code; the outcomes that are not final have lanes apart."""

from __future__ import annotations

from typing import Final

_SEPARATOR: Final = "/"
STORE: Final = "/store"
"""The consumer that holds for the store what was accepted into the direct queue; no subscription has such a name."""


def unfinished_lane(destination: str, subscription: str) -> str:
    """Return the lane of a subscription's outcomes that ask for another attempt."""
    return f"{destination}{_SEPARATOR}{subscription}"


def accepted_lane(destination: str) -> str:
    """Return the lane of the direct queue that a receiver of the same process accepts a destination's messages into."""
    return f"{destination}{_SEPARATOR}accepted"


def moved_lane(destination: str, subscription: str) -> str:
    """Return the lane of the direct queue for what another dispatcher had for a subscription, and no permits."""
    return f"{destination}{_SEPARATOR}moved{_SEPARATOR}{subscription}"


def turn_of(lane: str) -> int:
    """Return which of a destination's lanes of the direct queue is consumed first where an order is kept, from 0.

    What another dispatcher had, then what was published to it, then what was accepted into it.
    """
    _, _, kind = lane.partition(_SEPARATOR)
    if kind.startswith(f"moved{_SEPARATOR}"):
        return 0
    return 2 if kind == "accepted" else 1


def destination_of(lane: str) -> str:
    """Return the destination that a lane belongs to; a code has no slash."""
    return lane.partition(_SEPARATOR)[0]


def is_unfinished(lane: str) -> bool:
    """Whether a lane is one of unfinished outcomes."""
    return _SEPARATOR in lane
