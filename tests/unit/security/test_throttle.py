"""Waits grow with failures, end, and are not made longer by attempts during a wait."""

from __future__ import annotations

from bus.security.throttle import Limit, Throttle


class Seconds:
    """Time that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_the_longest() -> None:
    time = Seconds()
    throttle = Throttle(Limit(free=3, longest=10), time)
    waits = []
    for _ in range(9):
        assert throttle.wait("ann") == 0
        throttle.count("ann")
        waits.append(throttle.wait("ann"))
        time.now += waits[-1]
    assert waits == [0, 0, 1, 2, 4, 8, 10, 10, 10]
    assert throttle.wait("bob") == 0


def test_failures_are_forgotten_after_an_hour() -> None:
    time = Seconds()
    throttle = Throttle(Limit(free=1, longest=10), time)
    for _ in range(9):
        throttle.count("ann")
    time.now += 3601
    throttle.count("ann")
    assert throttle.wait("ann") == 1


def test_an_attempt_that_did_not_fail_is_taken_back() -> None:
    throttle = Throttle(Limit(free=2, longest=10), Seconds())
    for _ in range(20):
        throttle.count("ann")
        throttle.forgive("ann")
    assert throttle.wait("ann") == 0
    throttle.count("ann")
    throttle.count("ann")
    assert throttle.wait("ann") > 0
    throttle.clear("ann")
    assert throttle.wait("ann") == 0


def test_what_is_counted_is_bounded() -> None:
    throttle = Throttle(Limit(free=0, longest=10), Seconds())
    for number in range(20_000):
        throttle.count(number)
    assert len(throttle._failures) <= 10_000
    assert throttle.wait(19_999) > 0
