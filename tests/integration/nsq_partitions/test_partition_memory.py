"""A transport's beliefs about partitions: that they are empty, that their channels exist, that an id is new."""

from __future__ import annotations

import httpx

from bus.ports.transport import Consumer, IncomingMessage
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.http import PLAIN
from tests.harness.waiting import until
from tests.integration.nsq_partitions.partition_world import config, first_deliveries, opened, outgoing, publish, wanted

LANE = "billing"


async def test_a_partition_that_takes_no_messages_is_not_taken_for_empty(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(40)))

        def lag() -> tuple[int, int | None]:
            found = (transport.lags() or {}).get((code, LANE))
            return (found.records, found.oldest) if found is not None else (0, 0)

        await until(lambda: lag() == (40, 0), within=10, what="all wait")
        for partition in (0, 1):
            shared.set_writable(code, partition, writable=False)
        await until(lambda: lag()[0] < 40, within=10, what="nobody says that they lead")
        readings: set[float] = set()

        def is_held() -> bool:
            readings.update(one.asked for node in transport._cluster.nodes for one in node.readings())
            assert lag()[1] == 0
            return len(readings) > 20

        await until(is_held, within=10, what="that was read again and again")
        for partition in (0, 1):
            shared.set_writable(code, partition, writable=True)
        consumer = await transport.consume(code, LANE)
        await first_deliveries(consumer, range(40))
        await until(lambda: lag() == (0, None), within=10, what="nothing waits")


async def test_nothing_is_confirmed_into_a_topic_that_was_made_anew_without_channels(
    shared: YouzanDouble, code: str
) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared, lookup_interval=600.0)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(10)))
        shared.ask_lookupd("POST", "/topic/delete", topic=code, partition="**")
        shared.create_topic(code, partitions=2)
        await until(lambda: not any(open_partitions(transport, code)), within=10, what="the loss is seen")
        await publish(transport, outgoing(code, range(10, 30)))
        consumer = await transport.consume(code, LANE)
        await first_deliveries(consumer, range(10, 30))


def open_partitions(transport: object, code: str) -> list[int]:
    return list(transport._routes.open_partitions(code))  # type: ignore[attr-defined]


async def test_a_topic_that_was_deleted_is_made_again(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(10)))
        shared.ask_lookupd("POST", "/topic/delete", topic=code, partition="**")
        await until(lambda: transport._routes.layout(code).is_absent, within=10, what="it is known to be gone")
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(10, 30)))
        await first_deliveries(await transport.consume(code, LANE), range(10, 30))


async def test_who_finishes_what_a_new_leader_lacks_gets_what_has_its_ids_by_then(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=1, replicas=2)
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, LANE)
        await publish(transport, outgoing(code, range(10), keyed=False))
        held: list[IncomingMessage] = []
        while len(held) < 10:
            held += await consumer.receive(100)
        (buffer,) = consumer._buffers.values()
        before, leader = buffer._connection, 3 - own.leader(code, 0)
        own.move_leader_behind(code, 0, leader, lost=5)
        await until(lambda: buffer._connection is not before, what="the connection is gone")
        consumer.ack(held)
        await publish(transport, outgoing(code, range(10, 15), keyed=False))
        assert sorted(await _next_numbers(consumer, 5)) == list(range(10, 15))
        await until(lambda: own.counters(leader).get("finished") == 10, what="what the new leader has is finished")


async def _next_numbers(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        items = await consumer.receive(100)
        consumer.ack(items)
        found += [int(item.message.biz_id.removeprefix("order-")) for item in items]
    return found


async def test_nothing_stays_open_to_a_topic_without_queues(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(40)))
        before = len(writing(shared))
        await transport.remove(code, LANE)
        await until(lambda: len(writing(shared)) == before - 2, within=10, what="both connections are closed")


def writing(double: YouzanDouble) -> list[str]:
    """Return from where clients are connected that subscribed to nothing."""
    stats = [httpx.get(f"http://127.0.0.1:{nsqd.http}/stats", **PLAIN).json() for nsqd in double.nsqds.values()]
    return [client["remote_address"] for found in stats for client in found["data"]["producers"]]
