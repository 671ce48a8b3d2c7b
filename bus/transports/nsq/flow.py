"""The number of messages in flight for each connection of a consumer (RDY); rules without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """One connection: messages in flight over it, whether any came recently, the most that its nsqd allows."""

    in_flight: int
    active: bool
    most: int


def share(total: int, loads: Sequence[Load]) -> list[int]:
    """Share out ``total`` messages in flight, and return how many each connection may have.

    Messages in flight stay; the rest goes evenly to the connections with recent messages. While there is a
    rest, every connection may get one more, and every connection may have one, also where that is more than ``total``
    in all: an nsqd whose connection may get none would never deliver its messages.
    """
    if not total or not loads:
        return [0] * len(loads)
    spare = total - sum(load.in_flight for load in loads)
    busy = [index for index, load in enumerate(loads) if load.active] or list(range(len(loads)))
    more = [1 if spare > 0 else 0] * len(loads)
    if spare > 0:
        even, odd = divmod(max(spare - (len(loads) - len(busy)), len(busy)), len(busy))
        for place, index in enumerate(busy):
            more[index] = even + (place < odd)
    return [min(max(load.in_flight + extra, 1), load.most) for load, extra in zip(loads, more, strict=True)]


class Demand:
    """The number of messages that a consumer wants in flight, from the requests to it.

    Parameters
    ----------
    most
        The bound, whatever is requested.

    Attributes
    ----------
    resting
        It wants none until it is asked again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._wanted = 0
        self.resting = True

    @property
    def total(self) -> int:
        """Messages in flight: those that receivers hold, and those still to be received."""
        return 0 if self.resting else self._wanted

    def ask(self, limit: int, held: int) -> bool:
        """Note that a receiver that holds ``held`` messages wants ``limit`` more; return whether ``total`` changed.

        It grows at once, and shrinks when it is more than twice what is wanted.
        """
        before = self.total
        wanted = min(max(held + limit, 1), self._most)
        self.resting = False
        if wanted > self._wanted or wanted * 2 < self._wanted:
            self._wanted = wanted
        return self.total != before
