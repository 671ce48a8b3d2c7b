"""Token buckets let so many a second through, over any stretch of time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.rate import TokenBucket

NOW = 1000.0


def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(None)
    assert bucket.available(NOW, 10**9) == 10**9
    bucket.take(10**9)
    assert bucket.wait(NOW) == 0


def test_one_second_is_let_through_at_once_then_the_rate() -> None:
    bucket = TokenBucket(10)
    assert bucket.available(NOW, 100) == 10
    bucket.take(10)
    assert bucket.available(NOW, 100) == 0
    assert bucket.wait(NOW) == pytest.approx(0.1)
    assert bucket.available(NOW + 0.35, 100) == 3
    assert bucket.available(NOW + 60, 100) == 10


def test_a_rate_below_one_lets_one_through_now_and_then() -> None:
    bucket = TokenBucket(0.1)
    assert bucket.available(NOW, 5) == 1
    bucket.take(1)
    assert bucket.wait(NOW) == pytest.approx(10)
    assert bucket.available(NOW + 9.9, 5) == 0
    assert bucket.available(NOW + 10.1, 5) == 1


def test_taking_more_than_is_there_makes_later_calls_wait() -> None:
    bucket = TokenBucket(10)
    bucket.available(NOW, 1)
    bucket.take(30)
    assert bucket.wait(NOW) == pytest.approx(2.1)
    assert bucket.available(NOW + 2, 5) == 0
    assert bucket.available(NOW + 2.11, 5) == 1


def test_a_change_counts_from_the_next_call_on() -> None:
    bucket = TokenBucket(1000)
    assert bucket.available(NOW, 10_000) == 1000
    bucket.change(10)
    assert bucket.rate == 10
    assert bucket.available(NOW, 10_000) == 10
    bucket.take(10)
    bucket.change(10)
    assert bucket.available(NOW, 10_000) == 0
    bucket.change(1000)
    assert bucket.available(NOW + 0.1, 10_000) == 100
    bucket.change(None)
    assert bucket.available(NOW + 0.1, 10_000) == 10_000
    bucket.change(5)
    assert bucket.available(NOW + 0.1, 10_000) <= 5


def test_a_debt_is_not_forgiven_by_a_change_of_rate() -> None:
    bucket = TokenBucket(10)
    bucket.available(NOW, 1)
    bucket.take(20)
    bucket.change(20)
    assert bucket.available(NOW + 0.4, 5) == 0


def test_time_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10)
    bucket.available(NOW, 1)
    bucket.take(10)
    assert bucket.available(NOW - 50, 5) == 0
    assert bucket.available(NOW - 50 + 0.25, 5) == 2


@given(st.floats(0.5, 500), st.lists(st.tuples(st.floats(0, 2), st.integers(0, 400)), max_size=60))
def test_never_more_than_the_rate_and_one_second_at_once(rate: float, asks: list[tuple[float, int]]) -> None:
    bucket, now, taken = TokenBucket(rate), NOW, 0
    for pause, wanted in asks:
        now += pause
        count = bucket.available(now, wanted)
        bucket.take(count)
        taken += count
        assert taken <= max(1, rate) + rate * (now - NOW) + 1e-6


@given(st.floats(0.01, 500))
def test_who_waits_as_told_may_pass(rate: float) -> None:
    bucket, now = TokenBucket(rate), NOW
    for _ in range(5):
        bucket.available(now, 1)
        bucket.take(1)
        now += bucket.wait(now) + 1e-6
        assert bucket.available(now, 1) == 1


def test_a_burst_is_what_passes_at_once() -> None:
    bucket = TokenBucket(2, 10)
    assert bucket.available(NOW, 100) == 10
    bucket.take(10)
    assert bucket.wait(NOW) == pytest.approx(0.5)
    assert bucket.available(NOW + 60, 100) == 10
    bucket.change(2, 3)
    assert bucket.available(NOW + 60, 100) == 3
    bucket.change(100, 1)
    bucket.take(3)
    assert bucket.available(NOW + 61, 100) == 1
