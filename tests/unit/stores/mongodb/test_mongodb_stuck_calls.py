"""Calls that neither end nor fail: the client is replaced, and the process ends if that does not help."""

from __future__ import annotations

import asyncio
import os

import pytest

from bus import call_watch
from bus.errors import StoreUnavailable
from bus.stores.mongodb import connection as module
from bus.stores.mongodb.connection import Connection


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
async def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(module, "DEADLINE", 0.02)
    monkeypatch.setattr(call_watch, "GRACE", 0.01)
    monkeypatch.setattr(call_watch, "end_process", end)
    monkeypatch.setattr(call_watch, "_replaced", {})
    monkeypatch.setattr(Connection, "_has_server", True)
    return Connection("mongodb://127.0.0.1:9")


async def hang() -> None:
    await asyncio.Event().wait()


async def answer() -> int:
    return 1


async def test_a_client_whose_calls_hang_is_replaced(connection: Connection) -> None:
    before, losses = connection.database, connection.losses
    with pytest.raises(StoreUnavailable):
        await connection.exchange("reading", hang)
    assert connection.database is not before
    assert connection.losses == losses + 1
    assert "the client of MongoDB" in str(call_watch.replaced())
    assert await connection.exchange("reading", answer) == 1


async def test_calls_that_hang_at_once_replace_one_client(connection: Connection) -> None:
    losses = connection.losses
    calls = (connection.exchange("reading", hang) for _ in range(5))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in found} == {StoreUnavailable}
    assert connection.losses == losses + 1


async def test_the_process_ends_where_new_clients_hang_as_well(connection: Connection) -> None:
    for _ in range(2):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await connection.exchange("reading", hang)
        await connection.exchange("reading", answer)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await connection.exchange("reading", hang)
    with pytest.raises(Ended) as ended:
        await connection.exchange("reading", hang)
    assert ended.value.args == (os.EX_SOFTWARE,)
