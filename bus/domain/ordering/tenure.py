"""The tenure of a process in a role, and its takeover, without clocks that agree.

Who has a role raises its beat, and counts from the moment before it asked for that. Others count from when they saw the
beat change, and for longer by a margin: so they take over only after the one before has stopped by itself, as long as
neither clock is faster than the other by more than that margin (the lease of C. Gray and D. Cheriton, "Leases", 1989).
The epoch guards what this cannot: a clock that stands still with its machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from bus.domain.ordering.chain import TAKEOVER, Chain, Lease, Role, renewed, taken, vacated


class Terms(NamedTuple):
    """Times in seconds.

    Attributes
    ----------
    lease
        For how long a role is had after a sign of life was asked for.
    margin
        How much longer others wait.
    every
        Between two signs of life.
    """

    lease: float
    margin: float
    every: float


def terms_of(takeover: float) -> Terms:
    """Return the times by which a role is taken over so many seconds after the last sign of life."""
    return Terms(lease=takeover * 2 / 3, margin=takeover / 3, every=takeover / 6)


TERMS: Final = terms_of(TAKEOVER)


class Tenure:
    """One process and one role of one chain.

    Parameters
    ----------
    owner
        Names the process, also over its restarts; two that live at the same time have two names.
    clock
        Monotonic seconds.

    Attributes
    ----------
    begun
        Number of times that the role was taken anew, also after a short loss.
    """

    def __init__(self, role: Role, owner: str, url: str, terms: Terms, clock: Callable[[], float]) -> None:
        self.role = role
        self.terms = terms
        self._owner = owner
        self._url = url
        self._clock = clock
        self._epoch = 0
        self._until = -math.inf
        self.begun = 0
        self._seen = Lease()
        self._since = math.inf

    @property
    def is_held(self) -> bool:
        """Whether this process has the role now, for sure."""
        return bool(self._epoch) and self._clock() < self._until

    @property
    def epoch(self) -> int:
        """The epoch of this tenure; 0 for none."""
        return self._epoch

    def is_mine(self, chain: Chain) -> bool:
        """Whether this very tenure continues in a chain."""
        lease = chain.lease(self.role)
        return bool(self._epoch) and (lease.owner, lease.epoch) == (self._owner, self._epoch)

    def next(self, chain: Chain) -> Chain | None:
        """Return the chain to write for a tenure to continue or begin; None while another process has the role."""
        lease, now = chain.lease(self.role), self._clock()
        takeover = self.terms.lease + self.terms.margin
        if self.is_mine(chain):
            return renewed(chain, self.role, takeover)
        self._epoch = 0
        if lease != self._seen or self._since == math.inf:
            self._seen, self._since = lease, now
        is_free = not lease.owner or lease.owner == self._owner  # its own, of an earlier life
        # The owner's, which may have other terms; earlier versions write none.
        if is_free or now - self._since > (lease.takeover_after or max(TAKEOVER, takeover)):
            return taken(chain, self.role, self._owner, self._url, takeover)
        return None

    def put(self, chain: Chain, asked_at: float) -> None:
        """Record that a chain of `next` was written, requested at a time (monotonic seconds)."""
        self.begun += not self.is_held
        self._epoch = chain.lease(self.role).epoch
        self._until = asked_at + self.terms.lease

    def end(self, chain: Chain) -> Chain | None:
        """Return the chain to write on release; call it once nothing is under way. None if not held."""
        was_mine = self.is_mine(chain)
        self._epoch = 0
        return vacated(chain, self.role) if was_mine else None
