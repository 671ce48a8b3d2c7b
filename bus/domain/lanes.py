"""Names of spool streams: they begin with the code of a destination; outcomes that are not final have their own."""

from __future__ import annotations

from typing import Final

_SEPARATOR: Final = "/"
STORE: Final = "/store"
"""The consumer that holds for the store what was accepted into the direct queue; no subscription has such a name."""


def unfinished_lane(destination: str, subscription: str) -> str:
    """Return the stream of a subscription's outcomes that ask for another attempt."""
    return f"{destination}{_SEPARATOR}{subscription}"


def accepted_lane(destination: str) -> str:
    """Return the stream of the direct queue for messages of a destination that a receiver of its process accepts."""
    return f"{destination}{_SEPARATOR}accepted"


def moved_lane(destination: str, subscription: str) -> str:
    """Return the stream of the direct queue for messages from a dispatcher that had no slots for the subscription."""
    return f"{destination}{_SEPARATOR}moved{_SEPARATOR}{subscription}"


def turn_of(lane: str) -> int:
    """Return the place of a stream in the order in which a destination's direct queue is consumed, from 0.

    First the messages of another dispatcher, then those published to it, then those accepted into it.
    """
    _, _, kind = lane.partition(_SEPARATOR)
    if kind.startswith(f"moved{_SEPARATOR}"):
        return 0
    return 2 if kind == "accepted" else 1


def destination_of(lane: str) -> str:
    """Return the destination that a stream belongs to; a code has no slash."""
    return lane.partition(_SEPARATOR)[0]


def is_unfinished(lane: str) -> bool:
    """Whether a stream is one of unfinished outcomes."""
    return _SEPARATOR in lane
