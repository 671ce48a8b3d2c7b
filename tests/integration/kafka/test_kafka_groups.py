"""Several consumers of one subscription: takeovers, rebalances, slow subscribers."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from bus.domain.message import Message
from bus.ports.transport import Consumer, IncomingMessage
from bus.transports.kafka import KafkaConfig, KafkaTransport
from bus.transports.kafka.commits import decode_commit
from tests.harness.process import Child, module
from tests.integration.kafka.kafka_world import (
    CODE,
    commits,
    ensure,
    eventually,
    flowing,
    ids_of,
    members,
    numbered,
    operator,
    publish_all,
    receive,
    receive_ids,
    topic,
)
from tests.servers.kafka_fixtures import changed, opened

pytestmark = pytest.mark.timeout(300)


async def test_a_takeover_after_a_kill_repeats_only_what_was_not_finished(
    config: KafkaConfig, transport: KafkaTransport, tmp_path: Path
) -> None:
    """The process that dies has finished all but every tenth message, and its bitmap says so."""
    await ensure(transport)
    messages = numbered(300)
    await publish_all(transport, messages)
    settings = json.dumps({"bootstrap": config.bootstrap[0], "prefix": config.prefix})
    worker = Child(module("tests.integration.kafka.kafka_worker", settings, 10), log=tmp_path / "worker.log")
    with worker:
        unfinished = set(worker.ready_line()["unfinished"])
        worker.kill()
    assert len(unfinished) == 30
    consumer = await transport.consume(CODE, "billing")
    again = await receive(consumer, count=len(unfinished))
    assert {item.message.id for item in again} == unfinished
    assert all(item.suspect for item in again), "the one that died may have delivered them"
    later = numbered(20, first=1000)
    await publish_all(transport, later)
    fresh = await receive(consumer, count=len(later))
    assert not any(item.suspect for item in fresh), "nobody else can have had what came after the takeover"


async def test_a_consumer_that_leaves_in_order_leaves_nothing_in_doubt(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    await ensure(transport)
    await publish_all(transport, numbered(40))
    first = await transport.consume(CODE, "billing")
    found = await receive(first, count=40)
    first.ack(found)
    await first.close()
    assert await members(config) == []
    second = await transport.consume(CODE, "billing")
    later = numbered(10, first=100)
    await publish_all(transport, later)
    fresh = await receive(second, count=10)
    assert {item.message.id for item in fresh} == ids_of(later)
    assert not any(item.suspect for item in fresh)


async def test_a_consumer_that_is_told_twice_to_join_again_leaves_nobody_behind(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    """It is interrupted while it leaves: by another order to join again, and by its end."""
    await ensure(transport)
    consumer = await transport.consume(CODE, "billing")
    for first in (0, 100, 200):
        messages = numbered(10, first=first)
        await publish_all(transport, messages)
        await receive_ids(consumer, ids_of(messages))
        assert len(await members(config)) == 1
        for _ in range(50):
            consumer.restart()
            await asyncio.sleep(0)
    await consumer.close()
    assert await members(config) == []


async def test_two_processes_share_the_partitions(config: KafkaConfig, transport: KafkaTransport) -> None:
    await ensure(transport)
    async with opened(config) as other:
        await ensure(other)
        mine, theirs = await transport.consume(CODE, "billing"), await other.consume(CODE, "billing")
        async with flowing(transport, mine, theirs, batch=200) as flow:
            await eventually(lambda: len(flow.receivers) == 2, what="both receive")
        assert not flow.unexplained()


async def test_churn_with_slow_acks_loses_nothing_and_commits_only_what_is_finished(config: KafkaConfig) -> None:
    """Three consumers come and go all the time; one ack in ten takes longer than a rebalance waits."""
    churn = Churn(changed(config, drain_timeout=0.3), messages=1200, joins=6)
    await churn.run(within=250)
    assert churn.seen.keys() == ids_of(churn.published)
    assert not churn.unexplained()


@pytest.mark.proof
@pytest.mark.timeout(1200)
async def test_long_churn_loses_nothing(config: KafkaConfig) -> None:
    churn = Churn(changed(config, drain_timeout=1.0), messages=20_000, joins=30, stay=(3.0, 7.0))
    await churn.run(within=1100)
    repeated = churn.seen.total() - len(churn.seen)
    print(f"{len(churn.published)} messages, {churn.joins} joins, {churn.looks} looks, {repeated} repeated")
    assert churn.seen.keys() == ids_of(churn.published)
    assert not churn.unexplained()


async def test_a_subscriber_that_hangs_causes_no_rebalance(config: KafkaConfig) -> None:
    """Nothing is received for longer than the interval within which a consumer must poll."""
    config = changed(config, max_poll_interval=5.0, buffer_records=10)
    async with opened(config) as transport:
        await ensure(transport)
        await publish_all(transport, numbered(500))
        consumer = await transport.consume(CODE, "billing")
        first = await receive(consumer, limit=5, count=5)
        before = await members(config)
        await asyncio.sleep(1.5 * config.max_poll_interval)
        assert await members(config) == before
        consumer.ack(first)
        rest = await receive_ids(consumer, ids_of(numbered(500)) - {item.message.id for item in first})
        assert len(rest) == 495, "nothing came twice"


async def test_what_is_in_hand_over_a_rebalance_is_not_handed_out_again(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    """A request that takes longer than the drain goes on; its ack counts when the partition stayed here."""
    await ensure(transport)
    for n in range(6):
        await publish_all(transport, numbered(10, first=10 * n))
    consumer = await transport.consume(CODE, "billing")
    held = await receive(consumer, count=60)
    async with opened(config) as other:
        await ensure(other)
        guest = await other.consume(CODE, "billing")
        theirs = await receive(guest, count=1)  # the rebalance is over
        await guest.close()
    before = {item.message.id for item in held}
    assert {item.message.id for item in theirs} <= before
    consumer.ack(held)
    await eventually(lambda: (transport.lags() or {}).get((CODE, "billing")) == (0, None), what="the late acks count")


async def test_a_window_that_is_full_lets_others_go_on(config: KafkaConfig) -> None:
    """One message hangs; its partition is read as far as the window, the others to their end."""
    async with opened(changed(config, window=50, partitions=2)) as transport:
        await ensure(transport, "billing", "mail")
        messages = numbered(400)
        await publish_all(transport, [one for n, one in enumerate(messages) if n % 2])
        await publish_all(transport, [one for n, one in enumerate(messages) if not n % 2])
        consumer = await transport.consume(CODE, "billing")
        hung = (await receive(consumer, limit=1))[0]
        finished: set[str] = set()
        behind = [0]

        async def go_on() -> None:
            while True:
                for item in await consumer.receive(50):
                    finished.add(item.message.id)
                    if item.token.partition == hung.token.partition:
                        behind[0] = max(behind[0], item.token.offset)
                    consumer.ack([item])

        going = asyncio.create_task(go_on())
        await eventually(lambda: behind[0] >= 49, what="the partition is read to its window")
        more = numbered(200, first=1000)
        await publish_all(transport, more)
        everything = await receive_ids(await transport.consume(CODE, "mail"), ids_of([*messages, *more]))
        others = {item.message.id for item in everything if item.token.partition != hung.token.partition}
        assert others & ids_of(more)
        await eventually(lambda: others <= finished, what="the other partition is read to its end")
        assert behind[0] == hung.token.offset + 49
        consumer.ack([hung])
        await eventually(lambda: len(finished) == 599, what="the rest comes when the message is finished")
        going.cancel()


async def test_partitions_that_are_added_are_read_from_their_beginning(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    from aiokafka.admin import NewPartitions  # noqa: PLC0415

    await ensure(transport)
    consumer = await transport.consume(CODE, "billing")
    await publish_all(transport, numbered(10))
    consumer.ack(await receive(consumer, count=10))
    async with operator(config) as client:
        await client.create_partitions({topic(config): NewPartitions(8)})
    async with flowing(transport, consumer, batch=50) as flow:
        await eventually(
            lambda: {item.token.partition for item in flow.received} == set(range(8)),
            what="messages come from every partition",
        )


async def test_the_bitmap_of_a_commit_tells_what_is_finished(config: KafkaConfig) -> None:
    async with opened(changed(config, partitions=1)) as transport:
        await ensure(transport)
        await publish_all(transport, numbered(100))
        consumer = await transport.consume(CODE, "billing")
        found = await receive(consumer, count=100)
        consumer.ack(found[1::2])
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"].records == 50)
        (commit,) = (await commits(changed(config))).values()
        decoded = decode_commit(commit.offset, commit.metadata)
        assert commit.offset == 0
        assert [offset for offset in range(100) if decoded.is_done(offset)] == list(range(1, 100, 2))
        consumer.ack(found[0::2])
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"] == (0, None))
        (commit,) = (await commits(changed(config))).values()
        assert commit.offset == 100


class Churn:
    """Consumers on three transports that come and go while messages flow, and somebody who looks at the commits.

    Parameters
    ----------
    messages, joins
        Messages are published until there were so many, and consumers came so often.
    stay
        How long a consumer stays at least once it receives something, in seconds: the least and the most.
    """

    def __init__(
        self, config: KafkaConfig, *, messages: int, joins: int, stay: tuple[float, float] = (0.2, 1.0)
    ) -> None:
        self.config = config
        self.stay = stay
        self.joins = 0
        self.looks = 0
        self.published: list[Message] = []
        self.unconfirmed: Counter[str] = Counter()
        self.acked: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.fresh: Counter[str] = Counter()
        self._least = messages
        self._least_joins = joins
        self._all_published = False
        self._topology: dict[tuple[int, int], str] = {}

    async def run(self, *, within: float) -> None:
        """Run until every message was acked."""
        async with opened(self.config) as first, opened(self.config) as second, opened(self.config) as third:
            transports = [first, second, third]
            for transport in transports:
                await ensure(transport)
            async with asyncio.timeout(within), asyncio.TaskGroup() as group:
                for transport in transports:
                    group.create_task(self._come_and_go(transport))
                group.create_task(self._look())
                group.create_task(self._publish(first))

    def unexplained(self) -> set[str]:
        """Return what came again though it was neither published again nor marked as suspect."""
        return {name for name, times in self.fresh.items() if times > 1 + self.unconfirmed[name]}

    @property
    def _over(self) -> bool:
        return self._all_published and len(self.acked) == len(self.published)

    async def _publish(self, transport: KafkaTransport) -> None:
        while len(self.published) < self._least or self.joins < self._least_joins:
            some = numbered(30, first=len(self.published))
            await publish_all(transport, some, self.unconfirmed)
            self.published += some
            await asyncio.sleep(0.1)  # a pace that leaves messages for those who come later
        self._all_published = True

    async def _come_and_go(self, transport: KafkaTransport) -> None:
        while not self._over:
            consumer = await transport.consume(CODE, "billing")
            self.joins += 1
            async with asyncio.TaskGroup() as acks:
                await self._stay(consumer, acks)
                await consumer.close()

    async def _stay(self, consumer: Consumer, acks: asyncio.TaskGroup) -> None:
        leaves_at = math.inf
        while not self._over and time.monotonic() < leaves_at:
            found: list[IncomingMessage] = []
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    found = await consumer.receive(20)
            if found:
                leaves_at = min(leaves_at, time.monotonic() + random.uniform(*self.stay))
            for item in found:
                self._see(item)
                acks.create_task(self._ack(consumer, item))

    def _see(self, item: IncomingMessage) -> None:
        self.seen[item.message.id] += 1
        self.fresh[item.message.id] += not item.suspect
        self._topology[item.token.partition, item.token.offset] = item.message.id

    async def _ack(self, consumer: Consumer, item: IncomingMessage) -> None:
        await asyncio.sleep(random.uniform(0.4, 1.2) if random.random() < 0.1 else random.uniform(0, 0.02))
        self.acked.add(item.message.id)
        consumer.ack([item])

    async def _look(self) -> None:
        while not self._over:
            for partition, commit in (await commits(self.config)).items():
                below = {
                    name
                    for (place, offset), name in self._topology.items()
                    if place == partition and offset < commit.offset
                }
                assert not below - self.acked, "a commit is beyond something that is not finished"
            self.looks += 1
            await asyncio.sleep(0.2)
