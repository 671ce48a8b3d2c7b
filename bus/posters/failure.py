"""Why there is no answer, on its way to a `PostResult`."""

from __future__ import annotations

from typing import NamedTuple

from bus.ports.poster import PostFailure


class Failure(NamedTuple):
    """What went wrong, and a sentence about it."""

    kind: PostFailure
    error: str
