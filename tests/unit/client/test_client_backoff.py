"""The time of the next try."""

from __future__ import annotations

import pytest

from bus.client.network.backoff import LONGEST_RETRY_AFTER, Backoff


def test_waits_double_up_to_the_longest_with_full_jitter() -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    waits, now = [], 100.0
    for _ in range(10):
        backoff.fail(now)
        waits.append(backoff.due - now)
        now = backoff.due + 1  # a request that fails takes time as well
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    zero = Backoff(0.25, 30, lambda: 0.0)
    zero.fail(100.0)
    assert zero.due == 100


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    for second in range(5000):
        backoff.fail(second)
    assert backoff.due == 4999 + 30


def test_no_wait_is_longer_than_the_failures_have_lasted() -> None:
    backoff = Backoff(0.25, 30, iter([*[0.0] * 8, 1.0, 1.0]).__next__)
    for _ in range(8):
        backoff.fail(100.0)
    backoff.fail(101.5)
    assert backoff.due == 101.5 + 1.75
    backoff.succeed()
    backoff.fail(200.0)
    assert backoff.due == 200.25


@pytest.mark.parametrize(("asked", "least"), [(7.0, 7.0), (0.0, 0.0), (1e9, LONGEST_RETRY_AFTER)])
def test_retry_after_is_honoured_up_to_a_bound(asked: float, least: float) -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    backoff.fail(100.0, asked)
    assert backoff.due == 100 + least + 0.25


def test_hurry_shortens_only_what_nobody_asked_for() -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    backoff.fail(100.0)
    backoff.hurry()
    assert backoff.due == 0
    backoff.fail(100.0, 5.0)
    backoff.hurry()
    assert backoff.due > 105
    backoff.succeed()
    assert (backoff.failures, backoff.due) == (0, 0)
