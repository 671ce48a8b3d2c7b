"""A chain as a process knows it, which others may have changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from bus.domain.ordering.chain import Chain, ended, first_chain
from bus.domain.ordering.effects import KnownChain, Procedure, PutChain, ReadChain, Refusal
from bus.domain.ordering.tenure import Tenure


class ChainCopy:
    """What was read or written last, for all procedures of a process; a write that fails has it read anew.

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
        """Return what is known, else read it; None while the coordinator does not answer."""
        return self.chain if self._known is not None else (yield from self.read())

    def read(self) -> Procedure[Chain | None]:
        """Read the chain; None while the coordinator does not answer."""
        answer: KnownChain | Refusal = yield ReadChain()
        if isinstance(answer, Refusal):
            return None
        self._note(answer if answer.version else KnownChain(first_chain(self._now()), 0))
        return self.chain

    def put(self, seen: Chain, wanted: Chain) -> Procedure[bool]:
        """Write a chain that was made from one that was seen here; False when another was written, or nobody knows."""
        if self._known is None or self._known.chain is not seen:
            return False
        answer: int | Refusal = yield PutChain(wanted, self._known.version)
        if isinstance(answer, Refusal):
            self._known = None
            return False
        self._note(KnownChain(wanted, answer))
        return True

    def tend(self, tenure: Tenure, clock: Callable[[], float]) -> Procedure[None]:
        """Go on with a role, or take it where nobody has it."""
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
        """Keep what is newer: several procedures may have asked at once, and go on with what they saw."""
        if self._known is None or known.version > self._known.version:
            self._known = known
