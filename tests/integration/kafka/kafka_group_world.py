"""Helpers for tests of a group of two brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.domain.message import Message
from bus.errors import TransportUnavailable
from bus.ports.broker_group import GroupStatus
from bus.testing.contracts.broker_group import DESTINATION, ensure, eventually
from bus.testing.contracts.transport import receive
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.names import topic_of
from bus.transports.kafka.strict import KafkaGroup
from bus.transports.kafka.strict.copies import Pair, pair
from bus.transports.kafka.strict.names import strict_prefix
from bus.transports.kafka.strict.reader import KafkaReader
from bus.transports.kafka.strict.writer import KafkaWriter

NAME = "billing"
WHOLE = GroupStatus(is_whole=True, is_empty=True)
__all__ = ["DESTINATION", "NAME", "WHOLE", "ensure", "eventually", "receive"]


def topic(config: KafkaConfig) -> str:
    """Return the topic of the destination of tests."""
    return topic_of(DESTINATION, strict_prefix(config.prefix))


async def who(config: KafkaConfig) -> Pair:
    """Return which broker leads the topic and which keeps the other copy."""
    cluster = Cluster(config.client_options(), config.request_timeout)
    await cluster.open()
    try:
        return await pair(cluster, topic(config))
    finally:
        await cluster.close()


def run(first: int, count: int) -> list[Message]:
    """Return messages that are told apart by their numbers."""
    return [message(n) for n in range(first, first + count)]


async def stands_whole(group: KafkaGroup) -> None:
    """Wait until both copies are in step and nothing waits."""

    async def is_whole() -> bool:
        return await group.standing(DESTINATION, [NAME]) == WHOLE

    await eventually(is_whole)


async def opened_writer(group: KafkaGroup) -> KafkaWriter:
    """Return a writer as soon as the group takes one."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await group.writer(DESTINATION)
            except TransportUnavailable:
                await asyncio.sleep(0.1)


async def read_to_the_end(reader: KafkaReader) -> list[str]:
    """Receive and ack one by one until the brokers say that nothing is left; return the biz ids as they came."""
    found: list[str] = []
    async with asyncio.timeout(60):
        while True:
            waiting = asyncio.create_task(reader.receive(1))
            while not waiting.done() and not await reader.is_drained():
                await asyncio.wait([waiting], timeout=0.1)
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait([waiting])
                if waiting.cancelled():
                    return found
            found += [item.message.biz_id for item in waiting.result()]
            reader.ack(waiting.result())


def assert_in_order(found: Sequence[str], confirmed: Sequence[Message], written: Sequence[Message]) -> None:
    """All that was confirmed came, what was written came once at most, and all of it in the order of writing."""
    places = {one.biz_id: place for place, one in enumerate(written)}
    assert [places[name] for name in found] == sorted({places[name] for name in found})
    assert {one.biz_id for one in confirmed} <= set(found)
