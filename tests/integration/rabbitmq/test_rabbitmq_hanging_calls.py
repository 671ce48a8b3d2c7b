"""Calls of the client library that neither end nor fail: their connection is replaced; a paused broker is no such."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiormq
import pytest

from bus import call_watch
from bus.transports.rabbitmq.session import Session
from tests.integration.rabbitmq.rabbitmq_world import HASTY, confirmed, eventually, ids, receive, world
from tests.servers.rabbitmq import RabbitmqServer

HASTIER = HASTY._replace(answer=1.0, confirm=1.0, connect=1.0, close=1.0)


class Wedge:
    """Has calls of the library hang, whatever happens to them, on some of its connections."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.hung = 0

    async def hang(self) -> None:
        self.hung += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


@asynccontextmanager
async def wedged(monkeypatch: pytest.MonkeyPatch, method: str, hangs: Callable[[Any], bool]) -> AsyncIterator[Wedge]:
    """Wedge a method of the library's channels of those connections of which ``hangs`` is true."""
    wedge, original = Wedge(), getattr(aiormq.Channel, method)

    async def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if hangs(self.connection):
            await wedge.hang()
            raise ConnectionError("released")
        return await original(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(aiormq.Channel, method, patched)
        try:
            yield wedge
        finally:
            wedge.released.set()


async def test_a_connection_whose_calls_hang_is_replaced(
    primary: RabbitmqServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_watch, "_replaced", {})
    async with world(primary.url, patience=HASTIER) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(2)
        await confirmed(found, sent[0])
        assert ids(await receive(consumer, 1)) == ids(sent[:1])
        cluster = found.transport._clusters["rabbitmq-primary"]
        before = cluster.publishing.session
        async with wedged(monkeypatch, "basic_publish", lambda connection: connection is before._raw) as wedge:
            await eventually(call_watch.replaced, what="the call is abandoned")
            assert wedge.hung
            await eventually(lambda: cluster.publishing.session not in (None, before), what="another connection")
            assert "(publishing): calls neither ended" in str(call_watch.replaced())
            await confirmed(found, sent[1])
            assert ids(await receive(consumer, 1)) == ids(sent[1:])


async def test_the_process_ends_when_new_connections_hang_as_well(
    primary: RabbitmqServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(call_watch, "end_process", ended.append)
    async with world(primary.url, patience=HASTIER, tidy=False) as found:
        await found.ensure("billing")
        before = found.transport._clusters["rabbitmq-primary"].publishing.session
        async with wedged(monkeypatch, "basic_publish", lambda _: True):
            await eventually(lambda: ended, what="the end of the process")
        assert before.lost.is_set()
    assert ended[0] == 70


async def test_a_paused_broker_ends_no_process(primary: RabbitmqServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(call_watch, "end_process", ended.append)
    monkeypatch.setattr(call_watch, "_replaced", {})
    opened, original = 0, Session.open.__func__  # type: ignore[attr-defined]

    async def counted(cls: type[Session], *args: Any, **kwargs: Any) -> Session:
        nonlocal opened
        opened += 1
        session: Session = await original(cls, *args, **kwargs)
        return session

    monkeypatch.setattr(Session, "open", classmethod(counted))
    async with world(primary.url, patience=HASTIER) as found:
        await found.ensure("billing")
        until = opened + 2 * (call_watch.MOST_RENEWALS + 1)
        primary.pause()
        try:
            await eventually(lambda: opened >= until, what="many attempts to connect")
            assert not call_watch.replaced()
        finally:
            primary.resume()
        await confirmed(found, *found.messages(1))
    assert not ended
