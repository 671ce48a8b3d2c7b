"""The reader of a strictly ordered destination, and the messages that come too late for it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

from bus.domain.ordering.chain import Role, Segment, drained, floored, lost, trimmed
from bus.domain.ordering.chain_copy import ChainCopy
from bus.domain.ordering.effects import HasMark, IsDrained, Procedure
from bus.domain.ordering.tenure import TERMS, Tenure, Terms


class Verdict(enum.Enum):
    """Action for a message that was read."""

    GIVE = "it is the next one"
    LATE = "messages of a newer epoch were given before it"
    UNKNOWN = "this process does not read any more, or cannot know"


class ChainReader:
    """The reader of one chain, as procedures; of all processes one has the role.

    Parameters
    ----------
    subscriptions
        Names those that are configured.
    now
        Milliseconds since the epoch.
    """

    def __init__(
        self,
        owner: str,
        url: str,
        subscriptions: Callable[[], Collection[str]],
        clock: Callable[[], float],
        now: Callable[[], int],
        terms: Terms = TERMS,
    ) -> None:
        self.tenure = Tenure(Role.READER, owner, url, terms, clock)
        self.copy = ChainCopy(now)
        self._subscriptions = subscriptions
        self._clock = clock

    def tend(self) -> Procedure[None]:
        """Keep the role, or take it; and forget segments of which only a removed subscription had something."""
        yield from self.copy.tend(self.tenure, self._clock)
        chain = self.copy.chain
        names = self._subscriptions()
        if chain is not None and names and self._leads and (wanted := trimmed(chain, names)) != chain:
            yield from self.copy.put(chain, wanted)

    def next_for(self, subscription: str) -> Procedure[Segment | None]:
        """Return the segment that a subscription reads now; None while there is none, or this process does not read.

        Nor does a subscription read past messages that a group lost with its disks, until a person has decided.
        """
        chain = yield from self.copy.get()
        found = chain.next_for(subscription) if chain is not None and self._leads else None
        return found if found is not None and not found.is_lost else None

    def judge(self, subscription: str, segment: Segment, epoch: int) -> Procedure[Verdict]:
        """Return whether a message may be given to a subscription; durable when it returns that it may."""
        while (chain := (yield from self.copy.get())) is not None and self._leads and not chain.has_lost(segment):
            floor = chain.floor(subscription, segment)
            if epoch < floor:
                return Verdict.LATE
            if epoch == chain.floors.get(subscription):
                return Verdict.GIVE
            yield from self.copy.put(chain, floored(chain, subscription, epoch))
        return Verdict.UNKNOWN

    def leave(self, subscription: str, segment: Segment) -> Procedure[bool]:
        """End a segment for a subscription that has acked all messages it got of it, if nothing more can come."""
        chain = self.copy.chain
        if chain is not None and chain.current == segment:
            return False  # mostly so; asked anew only when it may be otherwise
        chain = yield from self.copy.read()
        if chain is None or not self._leads or chain.current == segment or chain.next_for(subscription) != segment:
            return False
        if not (yield IsDrained(segment.group, subscription)) or not (yield from self._is_kept(segment)):
            return False
        while (chain := (yield from self.copy.get())) is not None and self._leads and not chain.has_lost(segment):
            wanted = trimmed(drained(chain, segment, subscription), self._subscriptions())
            if wanted == chain or (yield from self.copy.put(chain, wanted)):
                return True
        return False

    def _is_kept(self, segment: Segment) -> Procedure[bool]:
        """Whether a group that holds nothing still has its data's mark; when that is gone, this is put into the chain.

        A group without a mark, as earlier versions wrote to it, is taken at its word.
        """
        while (chain := (yield from self.copy.get())) is not None and self._leads and not chain.has_lost(segment):
            mark = chain.marks.get(segment.group)
            has = (yield HasMark(segment.group, mark)) if mark else True
            if has is not False:
                return bool(has)
            yield from self.copy.put(chain, lost(chain, segment.group))
        return False

    @property
    def _leads(self) -> bool:
        """Whether this process has the role, by its copy of the chain."""
        chain = self.copy.chain
        return chain is not None and self.tenure.is_held and self.tenure.is_mine(chain)
