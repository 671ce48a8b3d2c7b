"""When to try again."""

from __future__ import annotations

import pytest

from bus.client.network.backoff import LONGEST_RETRY_AFTER, Backoff


def test_waits_double_up_to_the_longest_with_full_jitter() -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    waits = []
    for _ in range(10):
        backoff.fail(100.0)
        waits.append(backoff.due - 100)
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    zero = Backoff(0.25, 30, lambda: 0.0)
    zero.fail(100.0)
    assert zero.due == 100


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(0.25, 30, lambda: 1.0)
    for _ in range(5000):
        backoff.fail(0.0)
    assert backoff.due == 30


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
