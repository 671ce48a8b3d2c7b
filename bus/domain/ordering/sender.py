"""The sender of a strictly ordered destination: where a message is written, and when it is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.message import Message
from bus.domain.ordering.chain import (
    Chain,
    GroupStanding,
    Lease,
    Role,
    Segment,
    joined,
    lost,
    marked,
    produced_by,
    reopened,
    with_current,
    with_takeover,
    without,
)
from bus.domain.ordering.chain_copy import ChainCopy
from bus.domain.ordering.effects import CheckGroup, HasMark, Mark, OpenWriter, Procedure, WriteMessages
from bus.domain.ordering.tenure import TERMS, Tenure, Terms
from bus.errors import LeaseLost, NotLeader
from bus.localized_text import localized

_AGAIN: Final = localized("send it again under the same id: it is delivered once")
_WAIT: Final = localized("it is accepted once that one has ended: one producer at a time keeps the order")
_LOST: Final = localized("take the lease anew, and look at what was refused before you send that again")


MOST_SEGMENTS: Final = 64
"""Most segments of a chain, as its document is written with each change: a sender then waits for a drained group."""


class Admission(NamedTuple):
    """Epochs under which messages were accepted; messages that waited over a change of them may come too late.

    Attributes
    ----------
    tenure
        The epoch of the tenure of this process.
    producer
        The epoch of the producer that sent them; 0 for one without.
    """

    tenure: int
    producer: int = 0


class ChainSender:
    """The sender of one chain, as procedures; of all processes one has the role.

    Parameters
    ----------
    groups
        Those that are configured, in the order in which they are taken.
    now
        Milliseconds since the epoch.
    """

    def __init__(
        self,
        owner: str,
        url: str,
        groups: Sequence[str],
        clock: Callable[[], float],
        now: Callable[[], int],
        terms: Terms = TERMS,
    ) -> None:
        self.tenure = Tenure(Role.SENDER, owner, url, terms, clock)
        self.copy = ChainCopy(now)
        self._groups = tuple(groups)
        self._clock = clock
        self._now = now
        self._opened: tuple[str, int] | None = None
        # Of the writer that is open: earlier versions drop it from the chain.
        self._mark = ""
        self._is_marked = False
        self._doubted: Segment | None = None
        # Which lease was had under which tenure when its producer gave a sign of life last, and when.
        self._alive: tuple[int, int, float] = (0, 0, 0.0)

    def tend(self) -> Procedure[None]:
        """Keep the role, or take it where it has no owner; to be called every ``Terms.every``."""
        yield from self.copy.tend(self.tenure, self._clock)

    def look_around(self) -> Procedure[None]:
        """Add groups that came back, and remove those that wait for their turn and failed; called now and then.

        Also find those that lost their disks, even while nothing is written or read.
        """
        yield from self._look_for_losses()
        chain = yield from self.copy.get()
        if chain is None or not self._leads(chain):
            return
        behind = [group for group in self._groups if (group,) != chain.send[:1] and not chain.holds(group)]
        standings = {}
        for group in behind:
            standings[group] = yield CheckGroup(group)
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            failed = {group for group in chain.send[1:] if not self._may_wait(group, standings)}
            wanted = joined(without(chain, failed), standings)
            if wanted == chain or (yield from self.copy.put(chain, wanted)):
                return

    def _look_for_losses(self) -> Procedure[None]:
        for group in self._groups:
            chain = yield from self.copy.get()
            if chain is None or not self._leads(chain):
                return
            mark = self._mark_of(chain, group)
            has = (yield HasMark(group, mark)) if mark else None
            if has is False:
                yield from self._note_loss(group, mark)
            elif has and self._writes_to(chain, group):
                yield from self._raise_mark(group)

    def _note_loss(self, group: str, mark: str) -> Procedure[None]:
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            if self._mark_of(chain, group) != mark or (yield from self.copy.put(chain, lost(chain, group))):
                return

    def _mark_of(self, chain: Chain, group: str) -> str:
        """Return the mark of a group's data; empty when none is known."""
        return chain.marks.get(group) or (self._mark if self._writes_to(chain, group) else "")

    def _writes_to(self, chain: Chain, group: str) -> bool:
        """Whether a group takes messages, by a writer that this process has open."""
        current = chain.current
        return current is not None and current.group == group and self._opened == self._wanted(current)

    def _may_wait(self, group: str, standings: Mapping[str, GroupStanding]) -> bool:
        """Whether a group may continue to wait for its turn to take messages."""
        return group in self._groups and (group not in standings or standings[group].is_whole)

    def produce(self, owner: str, takeover_after: float = 0.0, epoch: int = 0) -> Procedure[Lease | None]:
        """Give a producer the exclusive lease, if no other one has it; renew the lease of the one that has it.

        Parameters
        ----------
        takeover_after
            Seconds without a sign of life after which another producer may take the lease; 0 for never.
        epoch
            Of the lease that a producer has, and that alone is renewed; 0 for any.

        Returns
        -------
        Lease
            Of the producer that has it now: this one, or another. None while this process cannot determine it; then the
            lease may have been taken.
        """
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            lease = chain.producer
            if lease.owner == owner and epoch in (0, lease.epoch):
                self._note_alive(lease)
                if lease.takeover_after == takeover_after:
                    return lease
                yield from self.copy.put(chain, with_takeover(chain, takeover_after))
            elif epoch or (lease.owner and not self._is_over(lease)):
                return lease
            else:
                yield from self.copy.put(chain, produced_by(chain, owner, takeover_after=takeover_after))
        return None

    def _note_alive(self, lease: Lease) -> None:
        self._alive = (lease.epoch, self.tenure.epoch, self._clock())

    def _is_over(self, lease: Lease) -> bool:
        """Whether a producer's lease is over: counted by this process, from when it learned of the lease itself."""
        if self._alive[:2] != (lease.epoch, self.tenure.epoch):
            self._note_alive(lease)
        return 0 < lease.takeover_after <= self._clock() - self._alive[2]

    def release(self, owner: str) -> Procedure[bool]:
        """End the exclusive lease of a producer, if it has it; False while this process cannot determine that."""
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            if chain.producer.owner != owner:
                return True
            yield from self.copy.put(chain, produced_by(chain, ""))
        return False

    def send(self, messages: Sequence[Message], admission: Admission) -> Procedure[list[int]]:
        """Write messages in order; return the epochs of those that two copies hold for sure, from the first.

        The state of the others is unknown: they are to be sent again, in order, before any that come behind them.

        Raises
        ------
        NotLeader
            Another process sends, or another producer does; nothing was written.
        LeaseLost
            Their producer is not the one any more, and never will be again.
        """
        held, failed = list[int](), set[str]()
        while len(held) < len(messages):
            head = yield from self._head(failed, admission)
            if head is None:
                break
            segment, epoch = head
            count = yield WriteMessages(segment.group, epoch, tuple(messages[len(held) :]))
            if count and self.copy.chain is not None and admission.producer:
                self._note_alive(self.copy.chain.producer)
            held += [epoch] * count
            if len(held) < len(messages):
                # A message in an unknown state may still arrive, so none may be written behind it, of any producer.
                self._doubted = segment
            if count and not self._is_marked:
                self._is_marked = yield from self._raise_mark(segment.group)
        return held if self._is_in(admission) else []

    def _is_in(self, admission: Admission) -> bool:
        return self.tenure.is_held and self.tenure.epoch == admission.tenure

    def _check(self, chain: Chain, admission: Admission) -> None:
        if not self._is_in(admission) or not self.tenure.is_mine(chain):
            raise NotLeader(
                localized("another process sends to this destination by now; this message is not accepted"), hint=_AGAIN
            )
        if admission.producer == chain.admits:
            self._note_alive(chain.producer)
            return
        if 0 < admission.producer <= chain.epoch:  # every later producer has a greater one
            raise LeaseLost(
                localized("its producer has lost the lease of this destination; this message is never accepted"),
                hint=_LOST,
            )
        raise NotLeader(
            localized("another producer sends to this destination alone; this message is not accepted now"),
            hint=_WAIT,
            wait=0,
        )

    def _leads(self, chain: Chain) -> bool:
        return self.tenure.is_held and self.tenure.is_mine(chain)

    def _head(self, failed: set[str], admission: Admission) -> Procedure[tuple[Segment, int] | None]:
        """Return the segment to write to, with a writer open, and the epoch; None while there is none."""
        while (chain := (yield from self._known(admission))) is not None:
            self._check(chain, admission)
            current = chain.current
            if current is None or current == self._doubted or current.group not in {*self._groups} - failed:
                if not (yield from self._move(chain, failed)):
                    return None
            elif (yield from self._is_open(current)):
                chain = self.copy.chain
                if chain is not None and chain.current == current and self._opened == self._wanted(current):
                    self._check(chain, admission)
                    return current, chain.write_epoch
            else:
                failed.add(current.group)
        return None

    def _known(self, admission: Admission) -> Procedure[Chain | None]:
        """Return the chain, read anew when messages are of a producer that came after it was read."""
        chain = yield from self.copy.get()
        if chain is not None and chain.epoch < admission.producer:
            chain = yield from self.copy.read()
        return chain

    def _move(self, chain: Chain, failed: set[str]) -> Procedure[bool]:
        """Put another group in the place of the current one; False while there is none.

        It is in ``consume`` before anybody writes to it: else a failure in between would have it passed over.
        """
        gone = failed | (set(chain.send) - set(self._groups))
        if chain.current is not None and chain.current == self._doubted:
            gone |= {chain.current.group}
        wanted = without(chain, gone)
        if not wanted.send:
            wanted = yield from self._with_any(wanted, failed)
        wanted = with_current(wanted, self._now())
        if wanted != chain:
            yield from self.copy.put(chain, wanted)
        return wanted.current is not None

    def _with_any(self, chain: Chain, failed: set[str]) -> Procedure[Chain]:
        """Return the chain with groups that can take messages: the best there are, or none."""
        standings = {}
        for group in self._groups:
            if group not in failed and not chain.holds(group):
                standings[group] = yield CheckGroup(group)
        found = joined(chain, standings)
        if found.send:
            return found
        if (yield from self._can_reopen(chain, failed)):
            return reopened(chain, self._now())
        return joined(chain, standings, leftovers=True)

    def _can_reopen(self, chain: Chain, failed: set[str]) -> Procedure[bool]:
        """Whether the group that took messages last can continue, since all others still have some."""
        if not chain.consume or len(chain.consume) >= MOST_SEGMENTS:
            return False
        group = chain.consume[-1].group
        return group in self._groups and group not in failed and (yield CheckGroup(group)).is_whole

    def _is_open(self, current: Segment) -> Procedure[bool]:
        """Open a writer on the current group in this tenure, if there is none; False when the group takes none.

        Read the chain again if there is still no writer after that: the group turned out to have lost its disks, or
        another process wrote the chain before its mark was in there.
        """
        if self._opened == self._wanted(current):
            return True
        # Shutting others out is for who has the role by now, not for who had it.
        chain = yield from self.copy.read()
        if chain is None or not self._leads(chain):
            raise NotLeader(
                localized("the coordinator does not say who sends to this destination; this message is not accepted"),
                hint=_AGAIN,
            )
        if not (yield OpenWriter(current.group)):
            return False
        mark = chain.marks.get(current.group, "")
        has = (yield HasMark(current.group, mark)) if mark else None
        if mark and not has:
            if has is False:
                yield from self._note_loss(current.group, mark)
            return has is False
        if not mark and not (mark := (yield Mark(current.group, ""))):
            return False
        yield from self._open_with(current, chain.marks.get(current.group, ""), mark)
        return True

    def _open_with(self, current: Segment, known: str, mark: str) -> Procedure[None]:
        """Replace the known mark, and use the writer from then on, if nothing else changed meanwhile."""
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            if chain.current != current or chain.marks.get(current.group, "") != known:
                return
            if (yield from self._put(chain, marked(chain, current.group, mark))):
                self._opened, self._mark, self._is_marked = self._wanted(current), mark, False
                return

    def _wanted(self, current: Segment) -> tuple[str, int]:
        """Return the key that distinguishes the writer that is to be open from earlier ones."""
        return current.group, max(self.tenure.epoch, current.epoch)

    def _put(self, chain: Chain, wanted: Chain) -> Procedure[bool]:
        """Write a chain, if it is another one."""
        return wanted == chain or (yield from self.copy.put(chain, wanted))

    def _raise_mark(self, group: str) -> Procedure[bool]:
        """Extend the mark of the group that is written to by the messages confirmed since; whether the chain has it."""
        chain = yield from self.copy.get()
        if chain is None or not self._leads(chain) or not (known := self._mark_of(chain, group)):
            return False
        mark = (yield Mark(group, known)) or known
        while (chain := (yield from self.copy.get())) is not None and self._leads(chain):
            if not self._writes_to(chain, group) or self._mark_of(chain, group) != known:
                return False
            if (yield from self._put(chain, marked(chain, group, mark))):
                self._mark = mark
                return True
        return False
