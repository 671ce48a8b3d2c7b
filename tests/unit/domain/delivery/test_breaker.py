"""The circuit breaker of one subscription."""

from __future__ import annotations

import pytest

from bus.domain.delivery.breaker import Breaker, BreakerState

NOW = 500.0


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(NOW, refused=True)
    assert breaker.state is BreakerState.OPEN
    return breaker


def feed(breaker: Breaker, now: float, *, failed: int = 0, succeeded: int = 0) -> BreakerState:
    for _ in range(succeeded):
        breaker.succeeded(now)
    for _ in range(failed):
        breaker.failed(now, refused=False)
    return breaker.state


def test_it_opens_at_twenty_results_of_which_nine_tenths_failed() -> None:
    breaker = Breaker()
    assert feed(breaker, NOW, succeeded=2, failed=17) is BreakerState.CLOSED
    assert feed(breaker, NOW, failed=1) is BreakerState.OPEN


def test_it_stays_closed_while_more_than_a_tenth_succeeds() -> None:
    breaker = Breaker()
    for second in range(1000):
        assert feed(breaker, NOW + second, failed=7, succeeded=1) is BreakerState.CLOSED


def test_fewer_than_twenty_results_in_ten_seconds_open_nothing() -> None:
    breaker = Breaker()
    for number in range(500):
        assert feed(breaker, NOW + number * 0.53, failed=1) is BreakerState.CLOSED


def test_results_older_than_ten_seconds_do_not_count() -> None:
    breaker = Breaker()
    feed(breaker, NOW, succeeded=10)
    assert feed(breaker, NOW + 9, failed=15) is BreakerState.CLOSED
    assert feed(breaker, NOW + 10.5, failed=5) is BreakerState.OPEN


def test_it_opens_at_five_refused_connections_in_a_row() -> None:
    breaker = Breaker()
    for number in range(4):
        breaker.failed(NOW + number * 100, refused=True)
    assert breaker.state is BreakerState.CLOSED
    breaker.failed(NOW + 400, refused=True)
    assert breaker.state is BreakerState.OPEN


@pytest.mark.parametrize("between", ["success", "another failure"])
def test_refused_connections_have_to_be_in_a_row(between: str) -> None:
    breaker = Breaker()
    for number in range(40):
        breaker.failed(NOW + number * 20, refused=number % 5 != 4)
        if between == "success" and number % 5 == 4:
            breaker.succeeded(NOW + number * 20)
        assert breaker.state is BreakerState.CLOSED


def test_an_open_breaker_lets_one_probe_through_after_a_second() -> None:
    breaker = opened()
    assert breaker.probe_in(NOW + 0.25) == 0.75
    assert not breaker.allows(NOW + 0.99)
    assert breaker.allows(NOW + 1)
    assert breaker.state is BreakerState.HALF_OPEN
    assert not breaker.allows(NOW + 1)
    assert breaker.probe_in(NOW + 1) == 30


def test_a_probe_without_a_result_delays_the_next_by_thirty_seconds() -> None:
    breaker = opened()
    assert breaker.allows(NOW + 1)
    assert not breaker.allows(NOW + 30.9)
    assert breaker.allows(NOW + 31)
    breaker.failed(NOW + 32, refused=False)
    assert breaker.probe_in(NOW + 32) == 2
    breaker.failed(NOW + 33, refused=False)
    assert breaker.probe_in(NOW + 33) == 1, "the late result of the first probe changes nothing"
    breaker.succeeded(NOW + 33)
    assert breaker.state is BreakerState.CLOSED


def test_the_wait_for_a_probe_doubles_to_thirty_seconds() -> None:
    breaker, now, waits = opened(), NOW, []
    for _ in range(8):
        wait = breaker.probe_in(now)
        now += wait
        waits.append(wait)
        assert breaker.allows(now)
        breaker.failed(now, refused=True)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_probe_that_succeeds_closes_and_begins_anew() -> None:
    breaker = opened()
    breaker.allows(NOW + 1)
    breaker.failed(NOW + 1, refused=False)
    breaker.allows(NOW + 3)
    breaker.succeeded(NOW + 3)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.allows(NOW + 3)
    for _ in range(4):
        breaker.failed(NOW + 3, refused=True)
    assert breaker.state is BreakerState.CLOSED
    breaker.failed(NOW + 3, refused=True)
    assert breaker.probe_in(NOW + 3) == 1


def test_once_closed_it_judges_shares_after_a_second() -> None:
    """So an endpoint that takes some messages is tried for at least as long as the first probe waits."""
    breaker = opened()
    breaker.allows(NOW + 1)
    breaker.succeeded(NOW + 1)
    assert feed(breaker, NOW + 1.9, failed=100) is BreakerState.CLOSED
    assert feed(breaker, NOW + 2, succeeded=12, failed=1) is BreakerState.CLOSED, "a tenth succeeded meanwhile"
    assert feed(breaker, NOW + 2, failed=30) is BreakerState.OPEN


def test_failures_that_were_in_flight_change_nothing_while_it_is_open() -> None:
    breaker = opened()
    feed(breaker, NOW + 0.5, failed=30)
    assert breaker.probe_in(NOW + 0.5) == 0.5
    assert breaker.allows(NOW + 1)


def test_a_success_that_was_in_flight_closes_it() -> None:
    breaker = opened()
    breaker.succeeded(NOW + 0.5)
    assert breaker.state is BreakerState.CLOSED


def test_a_probe_that_ended_without_a_result_may_be_taken_at_once() -> None:
    breaker = opened()
    breaker.allows(NOW + 1)
    breaker.abandoned(NOW + 1)
    assert breaker.state is BreakerState.OPEN
    assert breaker.allows(NOW + 1)
    breaker.failed(NOW + 1, refused=True)
    assert breaker.probe_in(NOW + 1) == 2


def test_it_tells_what_was_answered_last() -> None:
    breaker = Breaker()
    for status in (500, None, 422):
        breaker.failed(NOW, refused=False, status=status)
        assert breaker.answered == status


@pytest.mark.parametrize("make", [Breaker, opened])
def test_abandoning_without_a_probe_is_nothing(make) -> None:
    breaker = make()
    before = breaker.state
    breaker.abandoned(NOW + 0.5)
    assert breaker.state is before
    assert breaker.probe_in(NOW + 0.5) == (0.5 if before is BreakerState.OPEN else 0)
