"""How fast the Kafka road publishes, beside the bare client library with the same payload in the same run.

Run ``python -m bench.kafka [--json]``; medians of 3. Both publish batch after batch, each confirmed by the broker
before the next begins, as the receiver does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from aiokafka import AIOKafkaProducer

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.ports.transport import Outgoing
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.servers import kafka
from tests.servers.kafka_fixtures import Kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BODY = b'{"order": "' + b"4" * 1000 + b'", "a": 1}'
CODE = "bench"
BATCHES = {"64 a batch": (64, 0), "256 a batch": (256, 0), "256 a batch, 100 keys": (256, 100)}
"""How many messages, and with how many different keys; 0 is none."""
MESSAGES = 12_800
WARM = 1_280
RUNS = 3

Publish = Callable[[Sequence[Message]], Coroutine[Any, Any, None]]


@asynccontextmanager
async def road(bootstrap: str) -> AsyncIterator[Publish]:
    transport = KafkaTransport(KafkaConfig(bootstrap=(bootstrap,)), Kept(), SystemClock())
    running = asyncio.create_task(transport.run())
    await transport.ensure(
        Destination(code=CODE), [Subscription(destination=CODE, name="one", url="http://subscriber/hook")]
    )

    async def publish(messages: Sequence[Message]) -> None:
        held = await transport.publish([Outgoing(one, b"") for one in messages])
        if not all(held):
            raise RuntimeError("a message was not confirmed")

    try:
        yield publish
    finally:
        running.cancel()
        await asyncio.wait([running])
        await transport.close()


@asynccontextmanager
async def bare(bootstrap: str) -> AsyncIterator[Publish]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:

        async def publish(messages: Sequence[Message]) -> None:
            await asyncio.gather(*[await producer.send(CODE, one.body, one.key.encode() or None) for one in messages])

        yield publish


async def rate(publish: Publish, messages: Sequence[Message], batch: int) -> float:
    """Return messages a second."""
    for first in range(0, WARM, batch):
        await publish(messages[first : first + batch])
    started = time.perf_counter()
    for first in range(0, len(messages), batch):
        await publish(messages[first : first + batch])
    return len(messages) / (time.perf_counter() - started)


def payload(keys: int) -> list[Message]:
    return [
        message(n, destination=CODE, body=BODY, key=f"customer-{n % keys}" if keys else "") for n in range(MESSAGES)
    ]


async def measure(bootstrap: str) -> dict[str, dict[str, list[float]]]:
    payloads = {keys: payload(keys) for _, keys in BATCHES.values()}
    found: dict[str, dict[str, list[float]]] = {name: {"road": [], "bare": []} for name in BATCHES}
    async with road(bootstrap) as ours, bare(bootstrap) as theirs:
        for _ in range(RUNS):
            for name, (batch, keys) in BATCHES.items():
                found[name]["bare"].append(await rate(theirs, payloads[keys], batch))
                found[name]["road"].append(await rate(ours, payloads[keys], batch))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        kafka.KafkaServer(kafka.install(), Path(folder), short_lived=False) as server,
    ):
        found = uvloop.run(measure(server.bootstrap))
    if given.json:
        print(json.dumps(found))
        return 0
    for name, rates in found.items():
        ours, theirs = statistics.median(rates["road"]), statistics.median(rates["bare"])
        print(f"{name:24} {ours:10,.0f}/s   bare aiokafka {theirs:10,.0f}/s   {ours / theirs:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
