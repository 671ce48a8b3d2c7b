"""Remembered attempts: of the last minutes, of the last seconds under load, and in little memory."""

from __future__ import annotations

import pytest

from bus.domain.delivery.delivery import Outcome, Status
from bus.testing.clock import ManualClock
from dispatcher import recent_outcomes
from dispatcher.recent_outcomes import LONG, SHORT, RecentOutcomes

MANY = 10


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def recent(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> RecentOutcomes:
    monkeypatch.setattr(recent_outcomes, "MANY", MANY)
    return RecentOutcomes(clock)


def outcome(number: int = 0, *, generation: int = 0, attempts: int = 1, subscription: str = "billing") -> Outcome:
    status = Status.DELIVERED
    return Outcome(f"m{number}", "orders", subscription, 7, "", status, generation, at=1, attempts=attempts)


def test_a_later_attempt_and_a_later_generation_are_later(recent: RecentOutcomes) -> None:
    recent.add(outcome(generation=1, attempts=2))
    stages = [(0, 0), (0, 9), (1, 1), (1, 2), (1, 3), (2, 0)]
    assert [recent.has_later("orders", "billing", "m0", *stage) for stage in stages] == [True, True, True] + [False] * 3
    assert not recent.has_later("orders", "mail", "m0", 0, 0)
    assert not recent.has_later("orders", "billing", "m1", 0, 0)


async def test_few_are_remembered_for_minutes(recent: RecentOutcomes, clock: ManualClock) -> None:
    recent.add(outcome())
    await clock.advance(LONG)
    recent.add(outcome(1))
    assert recent.has_later("orders", "billing", "m0", 0, 0)
    await clock.advance(LONG)
    recent.add(outcome(2))
    assert not recent.has_later("orders", "billing", "m0", 0, 0)
    assert recent.has_later("orders", "billing", "m1", 0, 0)


async def test_many_are_remembered_for_seconds_at_least_and_not_much_longer(
    recent: RecentOutcomes, clock: ManualClock
) -> None:
    for number in range(10 * MANY):
        recent.add(outcome(number))
    await clock.advance(SHORT)
    recent.add(outcome(10 * MANY))
    assert recent.has_later("orders", "billing", "m0", 0, 0)
    await clock.advance(SHORT)
    for number in range(MANY + 1):
        recent.add(outcome(1000 + number))
    assert not recent.has_later("orders", "billing", "m0", 0, 0)


async def test_a_newer_stage_counts_where_both_are_remembered(recent: RecentOutcomes, clock: ManualClock) -> None:
    recent.add(outcome(attempts=1))
    await clock.advance(LONG)
    recent.add(outcome(attempts=2))
    assert recent.has_later("orders", "billing", "m0", 0, 1)
