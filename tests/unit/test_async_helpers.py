"""Whoever waits for the first of several leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from bus.async_helpers import first_of


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
