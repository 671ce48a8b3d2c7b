"""The time for which the event loop was held up."""

from __future__ import annotations

import asyncio
import time

from bus.serving.watchdog import NOTED, Watchdog
from tests.harness.waiting import until


async def test_a_hold_is_told_short_by_less_than_the_time_between_two_looks() -> None:
    told: list[float] = []
    with Watchdog(told.append):
        await asyncio.sleep(0)
        begun = time.monotonic()
        time.sleep(0.2)  # noqa: ASYNC251 - this is what it is for
        held = time.monotonic() - begun
        await until(lambda: told, what="it is told of")
    assert held - 0.03 < max(told) < held + 0.2


class _Turns:
    """A clock and a thread's CPU time that a test moves, and a loop that notes when it is to look again."""

    def __init__(self) -> None:
        self.now = self.computed = 0.0


async def test_it_looks_rarely_while_nothing_computes_and_often_while_something_does() -> None:
    turns, told = _Turns(), list[float]()
    watchdog = Watchdog(told.append, lambda: turns.now, lambda: turns.computed)
    with watchdog:
        waits: list[float] = []
        for computed in (0.0, 0.0, 0.2, 0.02, 0.0):
            waits.append(watchdog._due - turns.now)
            turns.now, turns.computed = watchdog._due + NOTED / 2, turns.computed + computed
            watchdog._look()
    assert [round(wait, 3) for wait in waits] == [0.02, 0.25, 0.25, 0.02, 0.02]
    assert told == []


async def test_what_is_late_is_told_and_nothing_after_the_end() -> None:
    turns, told = _Turns(), list[float]()
    watchdog = Watchdog(told.append, lambda: turns.now, lambda: turns.computed)
    with watchdog:
        turns.now = watchdog._due + NOTED
        watchdog._look()
    assert [round(late, 6) for late in told] == [NOTED]
    assert watchdog._timer is not None
    assert watchdog._timer.cancelled()
