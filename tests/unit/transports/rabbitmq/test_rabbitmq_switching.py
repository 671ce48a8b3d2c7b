"""The switch of publishing to another cluster, and back home."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bus.transports.rabbitmq.switching import Switch

FAILURES, WELL_FOR = 3, 10.0


def switch(*clusters: str) -> Switch:
    found = Switch(clusters or ("primary", "backup"), failures=FAILURES, well_for=WELL_FOR)
    for name in clusters or ("primary", "backup"):
        found.came(name, 0.0)
    return found


def test_while_all_is_well_the_primary_comes_first() -> None:
    assert switch().order(100.0) == ["primary", "backup"]


def test_nobody_is_tried_who_is_away() -> None:
    away = Switch(("primary", "backup"), failures=FAILURES, well_for=WELL_FOR)
    assert away.order(0.0) == []
    away.came("backup", 1.0)
    assert away.order(1.0) == ["backup"]
    assert away.active == "backup"


def test_at_the_start_the_primary_may_be_the_second_to_come() -> None:
    found = Switch(("primary", "backup"), failures=FAILURES, well_for=WELL_FOR)
    found.came("backup", 1.0)
    found.came("primary", 1.1)
    assert found.order(1.1) == ["primary", "backup"]


def test_a_lost_primary_is_left_at_once_and_gone_back_to_when_it_was_well_for_a_while() -> None:
    found = switch()
    found.went("primary", 1.0)
    assert found.order(1.0) == ["backup"]
    found.came("primary", 5.0)
    assert found.order(5.0) == ["backup", "primary"]
    assert found.order(5.0 + WELL_FOR - 0.1) == ["backup", "primary"]
    assert found.order(5.0 + WELL_FOR) == ["primary", "backup"]


def test_a_primary_that_comes_and_goes_is_not_gone_back_to() -> None:
    found = switch()
    found.went("primary", 0.0)
    for second in range(0, 100, 5):
        found.came("primary", float(second))
        assert found.order(second + 4.0)[0] == "backup"
        found.went("primary", second + 4.0)


def test_a_primary_that_is_lost_again_and_again_is_gone_back_to_ever_later() -> None:
    found = switch()
    now, waits = 100.0, [1, 2, 4, 8, 16, 32, 32]
    found.went("primary", now)
    for wait in waits:
        found.came("primary", now)
        assert found.order(now + wait * WELL_FOR - 0.1)[0] == "backup"
        now += wait * WELL_FOR
        assert found.order(now)[0] == "primary"
        found.succeeded("primary")
        now += WELL_FOR / 2
        found.went("primary", now)


def test_a_primary_that_lasted_is_trusted_as_before() -> None:
    found = switch()
    found.went("primary", 0.0)
    found.came("primary", 0.0)
    assert found.order(WELL_FOR)[0] == "primary"
    found.went("primary", WELL_FOR + 1.0)
    found.came("primary", 20.0)
    assert found.order(20.0 + 2 * WELL_FOR)[0] == "primary"
    found.went("primary", 20.0 + 4 * WELL_FOR)
    found.came("primary", 100.0)
    assert found.order(100.0 + WELL_FOR)[0] == "primary"


def test_a_person_s_word_makes_up_for_losses() -> None:
    found = switch()
    now = 100.0
    for wait in (1, 2, 4):
        found.went("primary", now)
        found.came("primary", now)
        now += wait * WELL_FOR
        assert found.order(now)[0] == "primary"
    found.went("primary", now)
    found.prefer("primary", now)
    found.came("primary", now)
    assert found.order(now + WELL_FOR)[0] == "primary"


def test_a_primary_that_confirms_nothing_is_left_after_some_failures_in_a_row() -> None:
    found = switch()
    for _ in range(FAILURES - 1):
        found.failed("primary", 1.0)
    found.succeeded("primary")
    for _ in range(FAILURES - 1):
        found.failed("primary", 2.0)
    assert found.active == "primary"
    found.failed("primary", 2.0)
    assert found.active == "backup"


def test_after_going_home_in_vain_one_failure_is_enough_and_the_next_wait_is_longer() -> None:
    found = switch()
    for _ in range(FAILURES):
        found.failed("primary", 0.0)
    assert found.order(2 * WELL_FOR - 0.1)[0] == "backup"
    assert found.order(2 * WELL_FOR)[0] == "primary"
    found.failed("primary", 20.0)
    assert found.order(20.0 + 4 * WELL_FOR - 0.1)[0] == "backup"
    assert found.order(20.0 + 4 * WELL_FOR)[0] == "primary"
    found.succeeded("primary")
    for _ in range(FAILURES - 1):
        found.failed("primary", 100.0)
    assert found.active == "primary"


def test_without_another_cluster_there_is_nowhere_to_go() -> None:
    found = switch("primary")
    for _ in range(10):
        found.failed("primary", 1.0)
    assert found.order(1.0) == ["primary"]
    found.went("primary", 2.0)
    assert found.order(2.0) == []
    found.came("primary", 3.0)
    assert found.order(3.0) == ["primary"]


def test_a_backup_that_fails_while_it_is_in_use_is_left_too() -> None:
    found = switch()
    found.went("primary", 1.0)
    found.came("primary", 1.0)
    found.went("backup", 1.0)
    assert found.order(1.0) == ["primary"]


def test_a_preferred_cluster_is_used_at_once_and_is_home_then() -> None:
    found = switch()
    found.prefer("backup", 1.0)
    assert found.order(1.0) == ["backup", "primary"]
    found.went("backup", 2.0)
    assert found.order(2.0) == ["primary"]
    found.came("backup", 3.0)
    assert found.order(3.0)[0] == "primary"
    assert found.order(3.0 + WELL_FOR)[0] == "backup"
    found.prefer(None, 20.0)
    assert found.order(20.0)[0] == "primary"


def test_a_preferred_cluster_that_is_away_is_used_when_it_has_come() -> None:
    found = Switch(("primary", "backup"), failures=FAILURES, well_for=WELL_FOR)
    found.came("primary", 0.0)
    found.prefer("backup", 0.0)
    assert found.order(0.0) == ["primary"]
    found.came("backup", 1.0)
    assert found.order(1.0 + WELL_FOR) == ["backup", "primary"]


def test_an_unknown_cluster_cannot_be_preferred() -> None:
    with pytest.raises(ValueError, match="there are: primary, backup"):
        switch().prefer("third", 0.0)


class SwitchMachine(RuleBasedStateMachine):
    """Whatever happens: who is away is not tried, whoever is there is tried, and going home takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.there: dict[str, float] = {}
        self.seen: set[str] = set()
        self.switch = Switch(("primary", "backup"), failures=FAILURES, well_for=WELL_FOR)

    @rule(name=st.sampled_from(["primary", "backup"]))
    def come(self, name: str) -> None:
        if name not in self.there:
            self.there[name] = self.now - (0 if name in self.seen else WELL_FOR)
            self.seen.add(name)
            self.switch.came(name, self.now)

    @rule(name=st.sampled_from(["primary", "backup"]))
    def go(self, name: str) -> None:
        if self.there.pop(name, None) is not None:
            self.switch.went(name, self.now)

    @rule(success=st.booleans())
    def publish(self, success: bool) -> None:
        order = self.order()
        if order and success:
            self.switch.succeeded(order[0])
        elif order:
            self.there[order[0]] = self.now
            self.switch.failed(order[0], self.now)

    @rule(seconds=st.floats(0.0, 60.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=st.sampled_from(["primary", "backup", None]))
    def prefer(self, name: str | None) -> None:
        self.switch.prefer(name, self.now)
        if name in self.there:
            assert self.switch.active == name

    @invariant()
    def those_who_are_there_are_tried(self) -> None:
        order = self.order()
        assert set(order) == set(self.there)
        assert not order or order[0] == self.switch.active

    def order(self) -> list[str]:
        before = self.switch.active
        order = self.switch.order(self.now)
        if before != self.switch.active:
            assert self.switch.active == self.switch.home
            assert self.now - self.there[self.switch.active] >= WELL_FOR
        return order


TestSwitchMachine = SwitchMachine.TestCase
