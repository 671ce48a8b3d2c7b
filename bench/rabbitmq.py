"""What the RabbitMQ road costs beside the bare client library: ``python -m bench.rabbitmq [--json]``.

Both publish the same bodies to the same topic exchange with one quorum queue, a batch at a time with every message
confirmed, and take them from the queue with an ack for each. The bare client sends no headers and keeps no record.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import aio_pika
import uvloop

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.ports.quarantine import Foreign
from bus.ports.transport import Outgoing
from bus.testing.writes import message
from bus.transports.rabbitmq import RabbitmqConfig, RabbitmqTransport, parse_cluster
from bus.transports.rabbitmq.names import Lane, exchange_of, queue_of
from tests.servers.rabbitmq import RabbitmqServer, install

LANE = Lane("bench", "billing")
BODY = b'{"order": 42, "text": "' + b"x" * 999 + b'"}'
BATCHES = (64, 256)
DEADLINE = 120.0


class NoForeign:
    """A quarantine that nothing may come into."""

    async def keep(self, foreign: Foreign) -> None:
        raise AssertionError(foreign)


async def measure(url: str, count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Alternate the road and the bare client, so that both see the same machine; return medians."""
    road = RabbitmqTransport(RabbitmqConfig(parse_cluster(url, "URL")), NoForeign(), SystemClock(), lambda: 0.5)
    running = asyncio.create_task(road.run())
    name = LANE.subscription
    await road.ensure(
        Destination(code=LANE.destination),
        [Subscription(destination=LANE.destination, name=name, url="http://subscriber/")],
    )
    connection = await aio_pika.connect(url)
    try:
        messages = [message(n, destination=LANE.destination, body=BODY) for n in range(count)]
        outgoing = [Outgoing(one, encode_message(one)) for one in messages]
        found = {}
        for batch in BATCHES:
            published, consumed = [], []
            for _ in range(rounds):
                ours = await rate(publish(road, outgoing, batch), count)
                taken = await rate(consume(road, count, batch), count)
                bare = await rate(publish_bare(connection, messages, batch), count)
                published.append((ours, bare))
                consumed.append((taken, await rate(consume_bare(connection, count, batch), count)))
            found[f"publish, batches of {batch}"] = medians(published)
            found[f"consume and ack, {batch} at once"] = medians(consumed)
        return found
    finally:
        await connection.close()
        running.cancel()
        await asyncio.wait([running])
        await road.close()


async def publish(road: RabbitmqTransport, outgoing: list[Outgoing], batch: int) -> None:
    for n in range(0, len(outgoing), batch):
        if not all(await road.publish(outgoing[n : n + batch])):
            raise RuntimeError("not everything was confirmed")


async def publish_bare(connection: aio_pika.abc.AbstractConnection, messages: list[Message], batch: int) -> None:
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    exchange = await channel.get_exchange(exchange_of(LANE.destination))
    for n in range(0, len(messages), batch):
        bodies = [aio_pika.Message(one.body, delivery_mode=2) for one in messages[n : n + batch]]
        await asyncio.gather(*(exchange.publish(body, "", mandatory=True) for body in bodies))
    await channel.close()


async def consume(road: RabbitmqTransport, count: int, limit: int) -> None:
    consumer = await road.consume(*LANE)
    missing = count
    while missing > 0:
        incoming = await consumer.receive(limit)
        consumer.ack(incoming)
        missing -= len(incoming)
    await consumer.close()


async def consume_bare(connection: aio_pika.abc.AbstractConnection, count: int, limit: int) -> None:
    channel = await connection.channel()
    await channel.set_qos(2 * limit)
    queue = await channel.get_queue(queue_of(LANE))
    missing, done = count, asyncio.Event()

    async def take(incoming: aio_pika.abc.AbstractIncomingMessage) -> None:
        nonlocal missing
        await incoming.ack()
        missing -= 1
        if missing <= 0:
            done.set()

    await queue.consume(take)
    await done.wait()
    # What was delivered twice must not be left to the next measurement.
    await queue.purge()
    await channel.close()


async def rate(work: Awaitable[None], count: int) -> float:
    started = time.perf_counter()
    async with asyncio.timeout(DEADLINE):
        await work
    return count / (time.perf_counter() - started)


def medians(pairs: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "per_second": statistics.median(ours for ours, _ in pairs),
        "bare_per_second": statistics.median(bare for _, bare in pairs),
        "ratio": statistics.median(ours / bare for ours, bare in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, default=5_000, help="messages of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    home = install()
    with tempfile.TemporaryDirectory(prefix="bus-rabbitmq-") as folder, RabbitmqServer(home, Path(folder)) as server:
        figures = uvloop.run(measure(server.url, given.count, given.rounds))
    if given.json:
        print(json.dumps(figures))
        return
    for name, found in figures.items():
        text = "{per_second:,.0f}/s  bare {bare_per_second:,.0f}/s  ratio {ratio:.2f}"
        print(f"{name}: {text.format(**found)}")


if __name__ == "__main__":
    main()
