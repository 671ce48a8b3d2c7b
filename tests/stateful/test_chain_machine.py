"""The transitions of a chain, in any order: what is read is what was written, in its order."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bus.domain.ordering.chain import (
    Chain,
    Role,
    Segment,
    abandoned,
    drained,
    first_chain,
    floored,
    joined,
    taken,
    trimmed,
    with_current,
    without,
)
from bus.ports.broker_group import GroupStatus

GROUPS = ("a", "b", "c")
NAMES = ("billing", "mail")
Written = tuple[int, int]  # number, epoch


class ChainMachine(RuleBasedStateMachine):
    """Logs of groups beside a chain: what the sender may write to, and what each subscription may read."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = first_chain(1_000)
        self.logs: dict[str, list[Written]] = {group: [] for group in GROUPS}
        self.places: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.whole = set(GROUPS)
        self.number = 0
        self.read: dict[str, list[int]] = {name: [] for name in NAMES}

    def _is_empty(self, group: str) -> bool:
        return all(self.places[group, name] == len(self.logs[group]) for name in NAMES)

    @rule(group=st.sampled_from(GROUPS))
    def fail(self, group: str) -> None:
        self.whole.discard(group)
        self.chain = without(self.chain, {group})

    @rule(group=st.sampled_from(GROUPS))
    def heal(self, group: str) -> None:
        self.whole.add(group)

    @rule()
    def join(self) -> None:
        standings = {group: GroupStatus(group in self.whole, self._is_empty(group)) for group in GROUPS}
        self.chain = with_current(joined(self.chain, standings), 0)

    @rule(role=st.sampled_from(Role))
    def take(self, role: Role) -> None:
        self.chain = taken(self.chain, role, "somebody", "", 6.0)

    @precondition(lambda self: self.chain.current is not None)
    @rule()
    def write(self) -> None:
        current = self.chain.current
        assert current is not None
        self.number += 1
        self.logs[current.group].append((self.number, self.chain.write_epoch))

    @rule(name=st.sampled_from(NAMES))
    def take_next(self, name: str) -> None:
        segment = self.chain.next_for(name)
        if segment is None:
            return
        place, log = self.places[segment.group, name], self.logs[segment.group]
        if place < len(log):
            number, epoch = log[place]
            assert epoch >= self.chain.floor(name, segment)
            self.chain = floored(self.chain, name, epoch)
            self.places[segment.group, name] += 1
            self.read[name].append(number)
        elif segment != self.chain.current:
            self.chain = trimmed(drained(self.chain, segment, name), NAMES)

    @invariant()
    def nothing_is_read_out_of_order_or_passed_over(self) -> None:
        for numbers in self.read.values():
            assert numbers == list(range(1, len(numbers) + 1))

    @invariant()
    def groups_stand_once_and_only_the_current_one_is_in_both(self) -> None:
        holding = [segment.group for segment in self.chain.consume]
        assert len(set(holding)) == len(holding)
        assert len(set(self.chain.send)) == len(self.chain.send)
        assert not set(self.chain.send[1:]) & set(holding)
        epochs = [segment.epoch for segment in self.chain.consume]
        assert epochs == sorted(set(epochs))
        assert self.chain.epoch >= max(epochs, default=0)


TestChain = ChainMachine.TestCase


def test_the_first_epoch_is_a_time_so_that_a_lost_chain_is_no_older() -> None:
    assert first_chain(1_700_000_000_000).epoch == 1_700_000_000_000


def test_what_a_person_abandons_is_passed_over_and_the_current_group_is_not() -> None:
    chain = Chain(epoch=9, send=("b",), consume=(Segment("a", 3), Segment("b", 9)))
    assert abandoned(chain, "a").consume == (Segment("b", 9),)
    assert abandoned(chain, "b") == chain
