"""Bugs in the rules of a chain, each of which the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from bus.domain.message import Message
from bus.domain.ordering.chain import Chain, Segment, joined, marked, with_current, without
from bus.domain.ordering.effects import CheckGroup, Mark, OpenWriter, Procedure
from bus.domain.ordering.reader import ChainReader, Verdict
from bus.domain.ordering.sender import Admission, ChainSender
from bus.domain.ordering.tenure import Terms
from tests.stateful.chains.actors import Rules


class AppendsLater(ChainSender):
    """Puts a group into ``consume`` once it has written there, as if two lists were written one after the other."""

    def _head(self, failed: set[str], admission: Admission) -> Procedure[tuple[Segment, int] | None]:
        chain = yield from self.copy.get()
        if chain is None or not chain.send or chain.current is not None or not self._leads(chain):
            return (yield from super()._head(failed, admission))
        segment = Segment(chain.send[0], chain.epoch + 1)
        return (segment, segment.epoch) if (yield from self._is_open(segment)) else None

    def _move(self, chain: Chain, failed: set[str]) -> Procedure[bool]:
        gone = set(failed) | ({chain.current.group} if chain.current is not None else set())
        standings = {}
        for group in self._groups:
            if group not in gone:
                standings[group] = yield CheckGroup(group)
        yield from self.copy.put(chain, joined(without(chain, gone), standings))
        return False

    def send(self, messages: Sequence[Message], admission: Admission) -> Procedure[list[int]]:
        held = yield from super().send(messages, admission)
        chain = yield from self.copy.get()
        if chain is not None and self._leads(chain):
            yield from self.copy.put(chain, with_current(chain, 0))
        return held


class JoinsUndrained(ChainSender):
    """Takes any group that is up, whatever it still has."""

    def _move(self, chain: Chain, failed: set[str]) -> Procedure[bool]:
        gone = failed | ({chain.current.group} if chain.current is not None else set())
        for group in self._groups:
            if group not in gone and (yield CheckGroup(group)).is_whole:
                return (yield from self.copy.put(chain, with_current(replace(chain, send=(group,)), 0)))
        return False


class AdmitsAny(ChainSender):
    """Takes messages of every producer, whoever has the lease."""

    def _check(self, chain: Chain, admission: Admission) -> None:
        super()._check(chain, admission._replace(producer=chain.admits))


class IgnoresDoubt(ChainSender):
    """Goes on where something was not confirmed, as if that could not land any more."""

    def _head(self, failed: set[str], admission: Admission) -> Procedure[tuple[Segment, int] | None]:
        self._doubted = None
        return super()._head(failed, admission)


class GivesLate(ChainReader):
    """Gives what is read, of whatever epoch."""

    def judge(self, subscription: str, segment: Segment, epoch: int) -> Procedure[Verdict]:
        verdict = yield from super().judge(subscription, segment, epoch)
        return Verdict.GIVE if verdict is Verdict.LATE else verdict


class TrustsTheEmpty(ChainReader):
    """Takes a group that holds nothing for read to its end, also one that lost its disks."""

    def _is_kept(self, segment: Segment) -> Procedure[bool]:  # noqa: ARG002 - asks nobody
        yield from ()
        return True


class WritesUnchecked(ChainSender):
    """Goes on with a group that lost its disks as if that had what it had."""

    def _is_open(self, current: Segment) -> Procedure[bool]:
        wanted = self._wanted(current)
        if self._opened == wanted or not (yield OpenWriter(current.group)):
            return self._opened == wanted
        chain = yield from self.copy.read()
        mark = yield Mark(current.group, "")
        if chain is not None and mark and (yield from self.copy.put(chain, marked(chain, current.group, mark))):
            self._opened, self._is_marked = wanted, True
        return True


_LONG: Final = Terms(lease=4.0, margin=-3.5, every=1.0)

BUGS: Final[dict[str, Callable[[], Rules]]] = {
    "a segment is appended after its group was returned": partial(Rules, sender=AppendsLater),
    "a group joins before it is drained": partial(Rules, sender=JoinsUndrained),
    "messages of an older producer are taken": partial(Rules, sender=AdmitsAny),
    "messages are written behind one that is in doubt": partial(Rules, sender=IgnoresDoubt),
    "messages of older epochs are given": partial(Rules, reader=GivesLate),
    "a group that lost its disks is taken for read": partial(Rules, reader=TrustsTheEmpty),
    "a group is not asked for its mark before it is written to": partial(Rules, sender=WritesUnchecked),
    "a reader goes on without its lease": partial(Rules, checks_lease=False),
    "a lease is longer than the error of clocks": partial(
        Rules, sender=partial(ChainSender, terms=_LONG), reader=partial(ChainReader, terms=_LONG)
    ),
}
