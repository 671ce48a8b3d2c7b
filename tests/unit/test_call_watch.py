"""Calls that neither end nor fail: they are found, their client is abandoned, and the process ends at last."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from bus import call_watch as module
from bus.call_watch import MOST_ABANDONED, MOST_RENEWALS, CallHangs, CallWatch

CLIENT = object()


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
async def call_watch(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CallWatch]:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(module, "GRACE", 0.02)
    monkeypatch.setattr(module, "end_process", end)
    monkeypatch.setattr(module, "_replaced", {})
    yield (made := CallWatch("the client of tests"))
    Deaf.release_all()
    await made.finish(within=5)


class Deaf:
    """A call that hangs whatever happens, until it is released; or until its connection is cut, if that helps."""

    made: ClassVar[list[Deaf]] = []

    def __init__(self, *, heeds_cut: bool = False) -> None:
        self.made.append(self)
        self.heeds_cut = heeds_cut
        self.cuts = 0
        self.cancellations = 0
        self.released = asyncio.Event()

    @classmethod
    def release_all(cls) -> None:
        while cls.made:
            cls.made.pop().released.set()

    def cut(self) -> None:
        self.cuts += 1
        if self.heeds_cut:
            self.released.set()

    async def __call__(self) -> str:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancellations += 1
        raise ConnectionError("cut")


async def hang(call_watch: CallWatch, client: object, deaf: Deaf | None = None) -> None:
    deaf = deaf or Deaf()
    await call_watch.call(deaf(), within=0.01, client=client, cut=deaf.cut)


async def answer(call_watch: CallWatch, client: object) -> str:
    return await call_watch.call(asyncio.sleep(0, "done"), within=5, client=client, cut=lambda: None)


async def test_a_result_an_error_and_a_late_call_are_no_hang(call_watch: CallWatch) -> None:
    assert await answer(call_watch, CLIENT) == "done"
    deaf = Deaf()
    deaf.released.set()
    with pytest.raises(ConnectionError):
        await call_watch.call(deaf(), within=5, client=CLIENT, cut=deaf.cut)
    with pytest.raises(TimeoutError) as late:
        await call_watch.call(asyncio.Event().wait(), within=0.01, client=CLIENT, cut=lambda: None)
    assert not isinstance(late.value, CallHangs)
    assert not module.replaced()


async def test_a_server_that_cannot_be_reached_never_ends_the_process(call_watch: CallWatch) -> None:
    for _ in range(3 * MOST_RENEWALS):
        deaf = Deaf(heeds_cut=True)
        with pytest.raises(ConnectionError):
            await hang(call_watch, object(), deaf)
        assert (deaf.cancellations, deaf.cuts) == (1, 1)
    assert not module.replaced()


async def test_a_call_that_hangs_is_cancelled_once_cut_once_and_abandoned(call_watch: CallWatch) -> None:
    deaf = Deaf()
    with pytest.raises(CallHangs):
        await hang(call_watch, CLIENT, deaf)
    assert (deaf.cancellations, deaf.cuts) == (1, 1)
    assert "the client of tests" in str(module.replaced())


async def test_a_caller_that_is_cancelled_does_not_hang_with_the_call(call_watch: CallWatch) -> None:
    deaf = Deaf()
    waiting = asyncio.create_task(call_watch.call(deaf(), within=60, client=CLIENT, cut=deaf.cut))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (deaf.cancellations, deaf.cuts) == (1, 1)
    assert module.replaced()


async def test_calls_of_one_client_count_once(call_watch: CallWatch) -> None:
    calls = (hang(call_watch, CLIENT) for _ in range(2 * MOST_RENEWALS))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in found} == {CallHangs}


async def test_the_process_ends_when_new_clients_hang_in_a_row(call_watch: CallWatch) -> None:
    for _ in range(2):
        for _ in range(MOST_RENEWALS):
            with pytest.raises(CallHangs):
                await hang(call_watch, object())
        await answer(call_watch, object())
    for _ in range(MOST_RENEWALS):
        with pytest.raises(CallHangs):
            await hang(call_watch, client := object())
        released = Deaf()
        released.released.set()
        with pytest.raises(ConnectionError):  # a call of the client that hangs says nothing about the next one
            await call_watch.call(released(), within=5, client=client, cut=released.cut)
    with pytest.raises(Ended) as ended:
        await hang(call_watch, object())
    assert ended.value.args == (os.EX_SOFTWARE,)


async def test_another_call_that_ends_does_not_show_that_a_new_client_helps(call_watch: CallWatch) -> None:
    for _ in range(MOST_RENEWALS):
        with pytest.raises(CallHangs):
            await hang(call_watch, object())
        await call_watch.call(asyncio.sleep(0), within=5, client=object(), cut=lambda: None, kind="connecting")
    with pytest.raises(Ended):
        await hang(call_watch, object())


async def test_the_process_ends_when_too_many_abandoned_clients_are_left(call_watch: CallWatch) -> None:
    for _ in range(MOST_ABANDONED):
        with pytest.raises(CallHangs):
            await hang(call_watch, object())
        await answer(call_watch, object())
    with pytest.raises(Ended):
        await hang(call_watch, object())


async def test_a_call_that_must_not_be_cancelled_continues_without_its_caller(call_watch: CallWatch) -> None:
    deaf = Deaf()
    waiting = asyncio.create_task(call_watch.uncancelled(deaf(), within=60, client=CLIENT))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    deaf.released.set()
    await call_watch.finish(within=5)
    assert deaf.cancellations == 0
    deaf = Deaf()
    with pytest.raises(CallHangs):
        await call_watch.uncancelled(deaf(), within=0.01, client=CLIENT)
    assert deaf.cancellations == 0


async def test_an_error_that_comes_with_the_end_of_the_caller_is_not_logged(
    call_watch: CallWatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def fail() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("no")

    waiting = asyncio.create_task(call_watch.call(fail(), within=60, client=CLIENT, cut=lambda: None))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    del waiting
    gc.collect()
    assert not caplog.records


async def test_a_result_does_not_hide_that_the_caller_was_cancelled(call_watch: CallWatch) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def work() -> str:
        begun.set()
        return await asyncio.wait_for(answer, 60)

    waiting = asyncio.create_task(call_watch.call(work(), within=60, client=CLIENT, cut=lambda: None))
    await begun.wait()
    answer.set_result("late")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
