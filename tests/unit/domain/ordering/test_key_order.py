"""Of each key one delivery at a time is out, in order, whatever fails, is stored, read again or lost with memory."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bus.domain.ordering.key_order import NEVER, KeyOrder

KEYS = ("a", "b", "c")


class Item(NamedTuple):
    """The ``n``-th message of a key; ``stored`` says whether the store has a row of it as it is."""

    key: str
    n: int
    place: int
    is_stored: bool = False

    def bare(self) -> Item:
        return self._replace(is_stored=True)


def take(order: KeyOrder[Item], key: str, count: int) -> list[Item]:
    return [out for n in range(1, count + 1) for out in order.take(key, Item(key, n, n))]


def test_one_of_a_key_is_out_and_the_others_follow_in_order() -> None:
    order: KeyOrder[Item] = KeyOrder()
    (first,) = take(order, "a", 3)
    assert order.take("b", Item("b", 1, 9)) == [Item("b", 1, 9)]
    assert first.n == 1
    assert [one.n for one in order.passed("a")] == [2]
    assert [one.n for one in order.passed("a")] == [3]
    assert order.passed("a") == []
    assert len(order) == 1


def test_what_holds_up_its_key_goes_out_again_first() -> None:
    order: KeyOrder[Item] = KeyOrder()
    (first,) = take(order, "a", 2)
    order.held_up("a", first, 5.0)
    assert order.next_due == 5.0
    assert order.due(4.9) == []
    assert order.take("a", Item("a", 3, 3)) == []
    assert order.due(5.0) == [("a", [first])]
    assert order.due(5.0) == []
    assert order.next_due == NEVER
    assert [one.n for one in order.passed("a")] == [2]


def test_without_an_end_it_waits_for_a_person() -> None:
    order: KeyOrder[Item] = KeyOrder()
    (first,) = take(order, "a", 3)
    order.held_up("a", first, NEVER)
    assert order.next_due == NEVER
    assert order.due(1e12) == []
    assert order.is_held_by("a", first)
    again = first._replace(is_stored=True)
    assert order.resume("a", again) == [again]
    assert not order.is_held_by("a", first)
    order.held_up("a", again, NEVER)
    assert [one.n for one in order.skip("a")] == [2]


@pytest.mark.parametrize("flushed", [0, 1, 2])
def test_a_person_may_decide_while_it_is_being_stored(flushed: int) -> None:
    order: KeyOrder[Item] = KeyOrder()
    (first,) = take(order, "a", 2)
    order.held_up("a", first, NEVER)
    order.relieve(0.0)
    chosen = order.to_store(10)
    order.stored(chosen[:flushed])
    assert order.skip("a") == []
    order.stored(order.to_store(10))
    assert order.next_wanted() == ("a", 1)
    assert order.next_wanted() is None
    assert [one.n for one in order.loaded("a", [Item("a", 2, 2, True)], 0.0, is_all=True)] == [2]


def test_keys_that_were_asked_for_longest_ago_come_first() -> None:
    order: KeyOrder[Item] = KeyOrder()
    for key in KEYS:
        (item,) = order.take(key, Item(key, 1, 1))
        order.held_up(key, item, NEVER)
    assert [held.key for held in order.held(2)] == ["a", "b"]
    assert [held.key for held in order.held(2)] == ["c", "a"]


def test_rows_that_are_gone_leave_a_free_key() -> None:
    order: KeyOrder[Item] = KeyOrder()
    assert not order.has_rows("a")
    order.restore("a")
    assert order.has_rows("a")
    assert order.needs_store
    assert order.take("a", Item("a", 1, 5)) == []
    assert order.next_wanted() is None
    order.stored(order.to_store(10))
    assert order.next_wanted() == ("a", 0)
    assert order.loaded("a", [], 0.0, is_all=True) == []
    assert len(order) == 0
    assert not order.needs_store


class Machine(RuleBasedStateMachine):
    """A worker around the rules: a transport that repeats what was not acked, a store with rows, and a clock."""

    @initialize(window=st.integers(1, 4))
    def begin(self, window: int) -> None:
        self.page = window
        self.now = 0.0
        self.sent: dict[str, int] = defaultdict(int)
        self.transport: dict[str, list[int]] = defaultdict(list)
        self.rows: dict[str, dict[int, int]] = defaultdict(dict)  # by place: which message
        self.done: dict[str, list[int]] = defaultdict(list)
        self.start()

    def start(self) -> None:
        self.order: KeyOrder[Item] = KeyOrder()
        self.out: dict[str, Item] = {}
        self.received: dict[str, int] = defaultdict(int)
        self.place = max((place for rows in self.rows.values() for place in rows), default=0)
        for key, rows in self.rows.items():
            if rows:
                self.order.restore(key)

    def go(self, items: list[Item]) -> None:
        for item in items:
            if item.n in self.done[item.key]:  # a copy that came again
                self.go(self.order.passed(item.key))
                continue
            assert item.key not in self.out
            assert self.done[item.key] == list(range(item.n))
            self.out[item.key] = item

    @rule(key=st.sampled_from(KEYS))
    def send(self, key: str) -> None:
        self.transport[key].append(self.sent[key])
        self.sent[key] += 1

    @rule(key=st.sampled_from(KEYS))
    def receive(self, key: str) -> None:
        fresh = self.transport[key][self.received[key] :]
        if fresh:
            self.received[key] += 1
            self.place += 1
            self.go(self.order.take(key, Item(key, fresh[0], self.place)))

    @rule(key=st.sampled_from(KEYS), wait=st.sampled_from([None, 1.0, 5.0, NEVER]))
    def conclude(self, key: str, wait: float | None) -> None:
        item = self.out.pop(key, None)
        if item is None:
            return
        if wait is not None:
            self.order.held_up(key, item._replace(is_stored=False), self.now + wait)
            return
        self.end(item)
        self.go(self.order.passed(key))

    def end(self, item: Item) -> None:
        self.done[item.key].append(item.n)
        self.rows[item.key] = {place: n for place, n in self.rows[item.key].items() if n != item.n}
        self.ack(item)

    def ack(self, item: Item) -> None:
        if item.n in self.transport[item.key]:
            self.transport[item.key].remove(item.n)
            self.received[item.key] = max(0, self.received[item.key] - 1)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for _, items in self.order.due(self.now):
            self.go(items)

    @rule(ahead=st.sampled_from([0.0, 3.0]))
    def relieve(self, ahead: float) -> None:
        self.order.relieve(self.now + ahead)

    @rule(limit=st.integers(1, 3))
    def store(self, limit: int) -> None:
        chosen = self.order.to_store(limit)
        for key, item in chosen:
            if item.n not in self.rows[key].values() and item.n not in self.done[key]:
                self.rows[key][item.place] = item.n
        for item in self.order.stored(chosen):
            self.ack(item)

    @rule(fails=st.booleans(), is_early=st.booleans())
    def load(self, fails: bool, is_early: bool) -> None:
        while (wanted := self.order.next_wanted()) is not None:
            key, after = wanted
            if fails:
                self.order.want(key)
                return
            rows = sorted((place, n) for place, n in self.rows[key].items() if place > after)
            items = [Item(key, n, place, True) for place, n in rows[: self.page]]
            until = self.now + 1.0 if is_early and items else 0.0
            self.go(self.order.loaded(key, items, until, is_all=len(rows) < self.page))

    @rule(limit=st.integers(1, 3), resends=st.booleans())
    def decide(self, limit: int, resends: bool) -> None:
        for key, by in self.order.held(limit):
            if resends:
                self.go(self.order.resume(key, by))
            else:
                self.end(by)
                self.go(self.order.skip(key))

    @rule()
    def crash(self) -> None:
        self.start()

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if not hasattr(self, "order"):
            return
        for key in KEYS:
            known = {*self.done[key], *self.transport[key], *self.rows[key].values()}
            known |= {item.n for item in self.order.in_memory() if item.key == key}
            known |= {self.out[key].n} if key in self.out else set()
            assert known == set(range(self.sent[key]))

    def teardown(self) -> None:
        if not hasattr(self, "order"):
            return
        for _ in range(40 + 4 * sum(self.sent.values())):
            self.store(3)
            self.load(fails=False, is_early=False)
            self.decide(3, resends=True)
            for key in KEYS:
                self.receive(key)
                self.conclude(key, None)
            self.wait(10.0)
        assert {key: self.done[key] for key in KEYS} == {key: list(range(self.sent[key])) for key in KEYS}


TestKeyOrder = Machine.TestCase
