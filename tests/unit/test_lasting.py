"""Work that must not end before its time goes on after whatever ended it."""

from __future__ import annotations

import asyncio

import pytest

from bus.async_helpers import lasting
from bus.testing.clock import ManualClock


@pytest.mark.parametrize("end", [ValueError("a defect"), asyncio.CancelledError()], ids=["defect", "stray"])
async def test_it_goes_on_after_whatever_ended_it(end: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    clock, rounds = ManualClock(), []

    async def work() -> None:
        rounds.append(clock.monotonic())
        if len(rounds) < 3:
            raise end

    task = asyncio.create_task(lasting("counting", work, clock.sleep))
    await clock.until(task.done)
    assert len(rounds) == 3
    assert rounds[2] - rounds[1] >= 1.0
    assert sum("counting" in record.message for record in caplog.records) == 2


async def test_cancelled_by_somebody_it_ends() -> None:
    clock = ManualClock()
    task = asyncio.create_task(lasting("waiting", asyncio.Event().wait, clock.sleep))
    await clock.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
