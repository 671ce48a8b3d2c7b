"""Calls of the client library that neither end nor fail: their client is replaced; a paused broker is no such case."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection

from bus import call_watch
from bus.transports.kafka import KafkaConfig
from tests.integration.kafka.kafka_world import (
    CODE,
    ensure,
    eventually,
    ids_of,
    numbered,
    publish,
    publish_all,
    receive_ids,
)
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_fixtures import changed, opened, quick


@asynccontextmanager
async def wedged(
    monkeypatch: pytest.MonkeyPatch, of: type, method: str, hangs: Callable[[Any], bool]
) -> AsyncIterator[list[object]]:
    """Have a method of the library hang, whatever happens, on objects of which ``hangs`` is true; yields those."""
    released, hung, original = asyncio.Event(), [], getattr(of, method)

    async def hang() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise ConnectionError("released")

    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if hangs(self):
            hung.append(self)
            return hang()
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(of, method, patched)
        try:
            yield hung
        finally:
            released.set()


@pytest.fixture
def config(broker: KafkaServer) -> KafkaConfig:
    return quick(broker.bootstrap)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the exit codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(call_watch, "end_process", codes.append)
    monkeypatch.setattr(call_watch, "_replaced", {})
    return codes


async def test_connections_whose_requests_hang_are_replaced(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    async with opened(changed(config, request_timeout=2.0)) as transport:
        await ensure(transport)
        old = set(transport._cluster._connections.made.values())
        async with wedged(monkeypatch, AIOKafkaConnection, "send", old.__contains__) as hung:
            await eventually(call_watch.replaced, what="a request is abandoned")
            assert hung
            await eventually(lambda: transport.lags() is not None, what="the cluster answers again")
            assert "the connections to" in str(call_watch.replaced())
            await publish_all(transport, numbered(3))
    assert not ended


async def test_a_producer_whose_calls_hang_is_replaced(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    async with opened(changed(config, publish_timeout=2.0)) as transport:
        await ensure(transport)
        old = transport._publisher._producer.client
        async with wedged(monkeypatch, AIOKafkaProducer, "send_batch", lambda one: one is old):
            async with asyncio.timeout(30):
                assert await publish(transport, *numbered(3)) == [False] * 3
            assert "the producer of" in str(call_watch.replaced())
            await publish_all(transport, numbered(3))
    assert not ended


async def test_a_consumer_whose_polls_hang_is_replaced(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    patience = changed(config, revive_after=1.0, drain_timeout=0.5)
    monkeypatch.setattr("bus.transports.kafka.config._REBALANCE_SLACK", 1.0)
    async with opened(patience) as transport:
        await ensure(transport)
        consumer = await transport.consume(CODE, "billing")
        await publish_all(transport, numbered(3))
        await receive_ids(consumer, ids_of(numbered(3)))
        old = consumer._membership._consumer
        async with wedged(monkeypatch, AIOKafkaConsumer, "getmany", lambda one: one is old):
            await eventually(call_watch.replaced, what="a poll is abandoned")
            await publish_all(transport, numbered(3, first=10))
            await receive_ids(consumer, ids_of(numbered(3, first=10)))
    assert not ended


async def test_the_process_ends_when_new_producers_hang_as_well(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    async with opened(changed(config, publish_timeout=0.5)) as transport:
        await ensure(transport)
        async with wedged(monkeypatch, AIOKafkaProducer, "send_batch", lambda _: True):
            async with asyncio.timeout(60):
                while not ended:
                    await publish(transport, *numbered(1))
                    await asyncio.sleep(0.05)
    assert ended[0] == os.EX_SOFTWARE


async def test_a_paused_broker_ends_no_process(broker: KafkaServer, config: KafkaConfig, ended: list[int]) -> None:
    async with opened(changed(config, request_timeout=0.5, publish_timeout=0.5)) as transport:
        await ensure(transport)
        consumer = await transport.consume(CODE, "billing")
        attempts, original = 0, transport._cluster.open

        async def counted() -> None:
            nonlocal attempts
            attempts += 1
            await original()

        transport._cluster.open = counted  # type: ignore[method-assign]
        broker.pause()
        try:
            await eventually(lambda: attempts > 2 * call_watch.MOST_RENEWALS, what="many attempts to connect")
        finally:
            broker.resume()
        assert not call_watch.replaced()
        await publish_all(transport, numbered(3))
        await receive_ids(consumer, ids_of(numbered(3)))
    assert not ended
