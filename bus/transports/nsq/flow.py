"""The number of messages in flight for each connection of a consumer (RDY); rules without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """One connection: messages in flight over it, whether any came lately, the most that its nsqd allows."""

    in_flight: int
    active: bool
    most: int


def share(total: int, loads: Sequence[Load]) -> list[int]:
    """Share out ``total`` messages in flight, and return how many each connection may have.

    What is in flight stays; the rest goes evenly to the connections over which messages came lately. While there is a
    rest, every connection may get one more, and every connection may have one, also where that is more than ``total``
    in all: one that may get none would be an nsqd whose messages wait for ever.
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
    """How many messages a consumer wants in flight, from what it is asked for.

    Parameters
    ----------
    most
        The bound whatever it is asked for.

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
        """Messages in flight: held by whoever asks, and to be received."""
        return 0 if self.resting else self._wanted

    def ask(self, limit: int, held: int) -> bool:
        """Note that somebody who holds ``held`` wants ``limit`` more; whether ``total`` changed.

        It grows at once, and shrinks when it is more than twice what is wanted.
        """
        before = self.total
        wanted = min(max(held + limit, 1), self._most)
        self.resting = False
        if wanted > self._wanted or wanted * 2 < self._wanted:
            self._wanted = wanted
        return self.total != before
