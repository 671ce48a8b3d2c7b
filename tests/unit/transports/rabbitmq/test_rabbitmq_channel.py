"""A consumer hears of its end whenever that comes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from pamqp.commands import Basic

from bus.localized_text import AnyText
from bus.transports.rabbitmq.channel import ConsumerChannel


class RawChannel:
    """The client library's channel of a broker that ends each consumer in the breath in which it confirms it."""

    def __init__(self) -> None:
        self.on_consumer_cancel_callbacks: set[Any] = set()
        self.closing = asyncio.get_running_loop().create_future()

    async def basic_qos(self, **_: Any) -> None:
        pass

    async def basic_consume(self, _queue: str, _callback: Any, *, consumer_tag: str = "made here") -> Basic.ConsumeOk:
        for callback in self.on_consumer_cancel_callbacks:
            callback(Basic.Cancel(consumer_tag, nowait=True))
        return Basic.ConsumeOk(consumer_tag)


class BareSession:
    """A session whose broker always answers."""

    async def call(self, _doing: AnyText, work: Coroutine[Any, Any, object], *, within: float) -> object:
        async with asyncio.timeout(within):
            return await work


async def test_a_consumer_that_ends_as_it_begins_is_noticed() -> None:
    channel: Any = SimpleNamespace(raw=RawChannel(), is_closed=False, session=BareSession())
    consuming = ConsumerChannel(channel, "queue", lambda *_: None, lambda: None, within=30.0)
    await consuming.consume(10)
    assert "ended the consumer" in consuming.gone
