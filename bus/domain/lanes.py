"""Lanes of the dispatcher's spool: a destination's finished outcomes, and apart each subscription's unfinished ones."""

from __future__ import annotations

from typing import Final

_SEPARATOR: Final = "/"


def unfinished_lane(destination: str, subscription: str) -> str:
    """Return the lane of a subscription's outcomes that ask for another attempt."""
    return f"{destination}{_SEPARATOR}{subscription}"


def destination_of(lane: str) -> str:
    """Return the destination that a lane belongs to; a code has no slash."""
    return lane.partition(_SEPARATOR)[0]


def is_unfinished(lane: str) -> bool:
    """Whether a lane is one of unfinished outcomes."""
    return _SEPARATOR in lane
