"""Local copy of a chain, which other processes may have changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from bus.domain.ordering.chain import Chain, ended, first_chain
from bus.domain.ordering.effects import KnownChain, Procedure, PutChain, ReadChain, Refusal
from bus.domain.ordering.tenure import Tenure


class ChainCopy:
    """The chain as last read or written, for all procedures of a process; a failed write causes a new read.

    Parameters
    ----------
    now
        Milliseconds since the epoch, for the first epoch of a chain that is new.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._known: KnownChain | None = None

    @property
    def chain(self) -> Chain | None:
        """The chain as it was known last; None before it is read, and once a write of it has failed."""
        return self._known.chain if self._known is not None else None

    def get(self) -> Procedure[Chain | None]:
        """Return the local copy, else read the chain; None while the coordinator does not answer."""
        return self.chain if self._known is not None else (yield from self.read())

    def read(self) -> Procedure[Chain | None]:
        """Read the chain; None while the coordinator does not answer."""
        answer: KnownChain | Refusal = yield ReadChain()
        if isinstance(answer, Refusal):
            return None
        self._note(answer if answer.version else KnownChain(first_chain(self._now()), 0))
        return self.chain

    def put(self, seen: Chain, wanted: Chain) -> Procedure[bool]:
        """Write a chain that was made from one that was seen here; False when another was written, or may have been."""
        if self._known is None or self._known.chain is not seen:
            return False
        answer: int | Refusal = yield PutChain(wanted, self._known.version)
        if isinstance(answer, Refusal):
            self._known = None
            return False
        self._note(KnownChain(wanted, answer))
        return True

    def tend(self, tenure: Tenure, clock: Callable[[], float]) -> Procedure[None]:
        """Keep a role, or take it where it has no owner."""
        chain = yield from self.read()
        wanted = tenure.next(chain) if chain is not None else None
        if chain is None or wanted is None:
            return
        asked_at = clock()
        if (yield from self.put(chain, wanted)):
            tenure.put(wanted, asked_at)

    def end(self, tenure: Tenure) -> Procedure[None]:
        """Leave nothing of a destination that was removed, if this process has the role and the coordinator answers."""
        while (chain := (yield from self.read())) is not None and tenure.is_held and tenure.is_mine(chain):
            if (yield from self.put(chain, ended(chain))):
                return

    def vacate(self, tenure: Tenure) -> Procedure[None]:
        """Give a role up, so that others need not wait for it."""
        chain = yield from self.read()
        wanted = tenure.end(chain) if chain is not None else None
        if chain is not None and wanted is not None:
            yield from self.put(chain, wanted)

    def _note(self, known: KnownChain) -> None:
        """Keep the newer chain: several procedures may have asked at once, and continue with the one they got."""
        if self._known is None or known.version > self._known.version:
            self._known = known
