"""A server that is not there is waited for once, and not by each who asks."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from bus import call_watch
from bus.errors import StoreUnavailable
from bus.stores.mongodb import connection
from bus.stores.mongodb.connection import Connection
from tests.harness.process import free_port


@pytest.fixture
async def away(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    monkeypatch.setattr(connection, "_SHORT", 0.5)
    monkeypatch.setattr(connection, "_KNOWN_AWAY", 60.0)
    made = Connection(f"mongodb://127.0.0.1:{free_port()}/bus")
    yield made
    await made.close()


async def ask(of: Connection) -> float:
    """Return how many seconds a refusal took."""
    now = asyncio.get_running_loop().time
    begun = now()
    with pytest.raises(StoreUnavailable, match=r"does not answer \(read documents\)"):
        await of.find("documents", {})
    return now() - begun


async def test_only_the_first_waits_for_a_server_that_is_not_there(away: Connection) -> None:
    first = await ask(away)
    assert sum([await ask(away) for _ in range(20)]) < first


async def test_a_server_is_looked_for_again_later(away: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await ask(away)
    monkeypatch.setattr(connection, "_KNOWN_AWAY", 0.0)
    assert await ask(away) > first / 2


async def test_calls_that_two_deadlines_end_at_once_leave_the_driver_as_it_was(
    away: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_KNOWN_AWAY", 0.0)

    async def cut_off() -> None:
        async with asyncio.timeout(0.1), asyncio.timeout(0.1):
            await away.find("documents", {})

    cut = await asyncio.gather(*(cut_off() for _ in range(20)), return_exceptions=True)
    assert {type(one) for one in cut} == {TimeoutError}
    async with asyncio.timeout(5):
        await ask(away)


async def test_the_driver_works_after_a_suspension_of_the_process(
    away: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deadlines of the bus and of the driver expire at once; two cancellations lost a lock in Python 3.11."""
    monkeypatch.setattr(connection, "_KNOWN_AWAY", 0.0)
    monkeypatch.setattr(connection, "DEADLINE", 0.7)

    async def ask_again() -> None:
        while True:
            with suppress(StoreUnavailable):
                await away.find("documents", {})

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask_again()) for _ in range(100)]
        for _ in range(3):
            await asyncio.sleep(0.6)
            time.sleep(0.8)  # noqa: ASYNC251 - the suspension
        for one in asking:
            one.cancel()
    async with asyncio.timeout(5):
        assert await ask(away) < 2


async def test_a_call_continues_when_its_caller_is_cancelled(away: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "_has_server", True)
    begun, released, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await released.wait()
        ended.set()

    call = asyncio.create_task(away.exchange("wait", work))
    async with asyncio.timeout(5):
        await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    released.set()
    async with asyncio.timeout(5):
        await ended.wait()


async def test_a_client_whose_calls_do_not_end_is_replaced(
    away: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "DEADLINE", 0.6)
    monkeypatch.setattr(call_watch, "GRACE", 0.1)
    before = away.database.client
    hung = [away.exchange("wait", asyncio.Event().wait) for _ in range(3)]
    monkeypatch.setattr(Connection, "_has_server", True)
    for one in await asyncio.gather(*hung, return_exceptions=True):
        assert isinstance(one, StoreUnavailable)
    assert away.database.client is not before
    assert [record.levelname for record in caplog.records] == ["ERROR"]


class Condition(dict[str, Any]):
    """One that can be referred to weakly."""


async def test_what_a_refused_call_was_given_is_not_kept(away: Connection) -> None:
    condition = Condition()
    known = weakref.ref(condition)
    with suppress(StoreUnavailable):
        await away.find("documents", condition)
    del condition
    gc.collect()
    assert known() is None
