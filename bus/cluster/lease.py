"""Until when a dispatcher may start requests, and the promises by which other dispatchers may start theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from bus.cluster.member import Member
from bus.domain.delivery.concurrency_shares import View
from bus.domain.subscription import LONGEST_TIMEOUT
from bus.ports.clock import Clock

LEASE_LASTS: Final = 4.0
"""Seconds, from the begin of its renewal on, for which a lease allows requests to start."""
_SHORT: Final = 2.5
PROMISE_LASTS: Final = 5.0
"""Seconds for which a promise binds; longer than the lease that it allows, as clocks may run at different speeds."""


class Question(msgspec.Struct, frozen=True, array_like=True):
    """A request for a promise: the owner that is asked, the process that asks, and the views that bound its shares."""

    asked: str
    asking: Member
    views: tuple[View, ...]


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """Whether a dispatcher has promised, and the views that bound its shares."""

    is_promised: bool
    views: tuple[View, ...]


ENDED: Final = Promise(True, ())
"""Stands for the answer of a dispatcher that has ended."""


class Lease:
    """Allows requests to start for a few seconds (monotonic time), and is renewed by one of two proofs.

    One is a write of this process's document: the others declare it unreachable only when its document has not changed
    for longer than that. The other proof is for the time in which the store does not answer: more than half of the
    dispatchers of each view that bounds the shares, this one included, promise to change to no view without it. To
    change to such a view takes at least half of them, so it takes one that has promised.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()
        self._promised: dict[str, float] = {}

    @property
    def is_held(self) -> bool:
        """Whether requests may start."""
        return self._clock.monotonic() < self._until

    @property
    def over_for(self) -> float:
        """Seconds since it ended; negative before."""
        return self._clock.monotonic() - self._until

    @property
    def is_short(self) -> bool:
        """Whether it ends so soon that promises are to be asked for, which can take two seconds."""
        return self._until - self._clock.monotonic() < _SHORT

    def renew(self, begun: float) -> None:
        """Let it last from when (monotonic seconds) the proof was begun."""
        self._until = max(self._until, begun + LEASE_LASTS)

    def end(self) -> None:
        """Let no request start until it is renewed: this process was declared unreachable."""
        self._until = min(self._until, self._clock.monotonic())

    def promise(self, owner: str) -> None:
        """Change to no view that this process does not agree with for some seconds."""
        self._promised[owner] = self._clock.monotonic()

    @property
    def promised(self) -> set[str]:
        """The owners of the processes to which this one is still bound by a promise."""
        now = self._clock.monotonic()
        return {owner for owner, at in self._promised.items() if now - at < PROMISE_LASTS}

    def lapses(self, alive: Collection[str]) -> list[float]:
        """Return for how long (seconds), at least, the leases have been over that others got by a promise.

        Those that are alive report their own requests in flight.
        """
        now = self._clock.monotonic()
        self._promised = {owner: at for owner, at in self._promised.items() if (now - at) * 1000 < LONGEST_TIMEOUT * 2}
        return [now - at - LEASE_LASTS for owner, at in self._promised.items() if owner not in alive]


def has_majority(sharers: Collection[str], views: Iterable[View]) -> bool:
    """Whether these are more than half of the dispatchers of each view."""
    return all(2 * len(set(view.owners) & set(sharers)) > len(view.owners) for view in views)
