"""Acks in few frames: a rule without I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Settlement(NamedTuple):
    """One ack: of a delivery tag, or of all tags up to it."""

    tag: int
    up_to: bool


class AckWindow:
    """Tracks which deliveries of a channel are not acked yet; acks the finished ones at the start in one frame."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._open: set[int] = set()
        self._finished: set[int] = set()

    @property
    def outstanding(self) -> int:
        """How many deliveries the broker counts as unacked."""
        return len(self._open)

    def delivered(self, tag: int) -> None:
        """Note a delivery; tags only grow."""
        self._order.append(tag)
        self._open.add(tag)

    def finish(self, tags: Iterable[int]) -> None:
        """Note tags that may be acked; unknown tags and those acked before are left out."""
        self._finished.update(tag for tag in tags if tag in self._open)

    def take(self) -> list[Settlement]:
        """Return the acks to send now."""
        if not self._finished:
            return []
        first = last = 0
        while self._order and (self._order[0] in self._finished or self._order[0] not in self._open):
            tag = self._order.popleft()
            if tag in self._finished:
                first, last = first or tag, tag
        prefix = [Settlement(last, last != first)] if last else []
        single = [Settlement(tag, False) for tag in sorted(self._finished) if tag > last]
        self._open -= self._finished
        self._finished.clear()
        return prefix + single

    def drop(self, tags: Iterable[int]) -> None:
        """Note tags that were given back to the broker."""
        self._open.difference_update(tags)
        self._finished.difference_update(tags)
