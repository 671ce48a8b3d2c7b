"""Whoever waits for the first of several leaves nothing behind, and what is cancelled twice is cancelled once."""

from __future__ import annotations

import asyncio
import gc

import pytest

from bus.waits import cancelled_once, first_of


class Wait:
    """Waits for ever, and knows whether it has ended."""

    def __init__(self) -> None:
        self.has_ended = False

    async def __call__(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.has_ended = True


async def test_the_others_have_ended_when_the_first_has() -> None:
    other, event = Wait(), asyncio.Event()
    waiting = asyncio.create_task(first_of(other(), event.wait()))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    await waiting
    assert other.has_ended


async def test_it_waits_no_longer_than_it_may() -> None:
    waits = [Wait(), Wait()]
    await first_of(*(wait() for wait in waits), within=0.01)
    assert all(wait.has_ended for wait in waits)


async def test_who_is_cancelled_cancels_them_all() -> None:
    waits = [Wait(), Wait()]
    waiting = asyncio.create_task(first_of(*(wait() for wait in waits)))
    await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert all(wait.has_ended for wait in waits)


class Ending:
    """Waits for ever, takes its time to end, and counts how often that was cut off."""

    def __init__(self) -> None:
        self.cut = 0
        self.begun, self.is_ending = asyncio.Event(), asyncio.Event()
        self.may_end = asyncio.Event()
        self.has_ended = False

    async def __call__(self) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ending.set()
            while not self.may_end.is_set():
                try:
                    await self.may_end.wait()
                except asyncio.CancelledError:
                    self.cut += 1
            self.has_ended = True
        return "never"


async def test_work_is_given_its_result_and_its_error() -> None:
    async def fail() -> None:
        raise ValueError("no")

    assert await cancelled_once(asyncio.sleep(0, "done"), within=5) == "done"
    with pytest.raises(ValueError, match="no"):
        await cancelled_once(fail(), within=5)


async def test_work_that_takes_too_long_has_ended_when_that_is_told() -> None:
    work = Ending()
    work.may_end.set()
    with pytest.raises(TimeoutError):
        await cancelled_once(work(), within=0.01)
    assert work.has_ended


async def test_work_whose_caller_is_cancelled_again_and_again_is_cancelled_once() -> None:
    work = Ending()
    waiting = asyncio.create_task(cancelled_once(work(), within=60))
    await work.begun.wait()
    waiting.cancel()
    await work.is_ending.wait()
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (work.has_ended, work.cut) == (True, 0)


async def test_an_error_that_comes_with_the_end_of_the_caller_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def fail() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("no")

    waiting = asyncio.create_task(cancelled_once(fail(), within=60))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    del waiting
    gc.collect()
    assert not caplog.records


async def test_a_result_does_not_hide_that_the_caller_was_cancelled() -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def work() -> str:
        begun.set()
        return await asyncio.wait_for(answer, 60)

    waiting = asyncio.create_task(cancelled_once(work(), within=60))
    await begun.wait()
    answer.set_result("late")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
