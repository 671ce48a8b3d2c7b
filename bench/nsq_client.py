"""The NSQ client of the bus beside ansq, the fastest of Python's that runs here: publishing, and consuming with FIN.

``python -m bench.nsq_client --nsqd HOST:TCP/HTTP`` measures one side after the other and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import ansq
import uvloop

from bench.load import FIRST_SEQ, body_of
from bench.publishing import opened
from bench.report import Row
from bench.run import Run
from bus.domain.message import encode_message
from bus.ports.transport import OutgoingMessage
from bus.settings import Settings
from bus.testing.writes import message
from tests.harness.process import Child, module
from tests.servers import nsq

SECTION = "nsq-client"
BATCH: Final = 100
BODY_BYTES: Final = 1024
IN_FLIGHT: Final = 2_000
WITHIN: Final = 60.0
TOPIC: Final = "published"
CHANNEL: Final = "one"


class Side(NamedTuple):
    """A client: publishes a batch, and consumes and finishes so many messages."""

    publish: Callable[[Sequence[OutgoingMessage]], Awaitable[None]]
    consume: Callable[[int], Awaitable[None]]


def measure(run: Run) -> list[Row]:
    """Return the rows of both clients."""
    found: dict[str, list[float]] = {}
    for round_ in range(run.size.rounds):
        run.step(f"NSQ clients, round {round_ + 1}")
        for name, rate in _round(run).items():
            found.setdefault(name, []).append(rate)
    return [
        Row(SECTION, f"published, batches of {BATCH}", found["publish ours"], "/s", "ansq", found["publish ansq"], 1.0),
        Row(SECTION, "consumed and finished", found["consume ours"], "/s", "ansq", found["consume ansq"], 1.0),
    ]


def _round(run: Run) -> dict[str, float]:
    with run.place() as folder, nsq.NsqdServer(run.nsq, folder / "nsqd") as nsqd:
        argv = module("bench.nsq_client", "--nsqd", nsqd.place, "--count", run.size.messages)
        with Child(argv, log=folder / "client.log") as child:
            found: dict[str, float] = child.ready_line(within=4 * WITHIN)
    return found


@asynccontextmanager
async def _ours(nsqd: str) -> AsyncIterator[Side]:
    async with opened("nsq", Settings(nsq_nsqd=nsqd)) as (publish, transport):
        consumer = await transport.consume(TOPIC, CHANNEL)

        async def consume(count: int) -> None:
            while count > 0:
                got = await consumer.receive(IN_FLIGHT)
                consumer.ack(got)
                count -= len(got)

        yield Side(publish, consume)
        await consumer.close()


@asynccontextmanager
async def _ansq(nsqd: str) -> AsyncIterator[Side]:
    address = nsqd.partition("/")[0]
    writer = await ansq.create_writer(nsqd_tcp_addresses=[address])

    async def publish(batch: Sequence[OutgoingMessage]) -> None:
        await writer.mpub(TOPIC, *[item.payload for item in batch])

    async def consume(count: int) -> None:
        host, _, port = address.rpartition(":")
        reader: Any = await ansq.open_connection(host, int(port))
        await reader.subscribe(TOPIC, CHANNEL, IN_FLIGHT)
        async for got in reader.messages():
            await got.fin()
            count -= 1
            if not count:
                break
        await reader.close()

    yield Side(publish, consume)
    await writer.close()


async def _rates(nsqd: str, count: int) -> dict[str, float]:
    """Return messages a second: each side publishes, and consumes what it has published, before the other does."""
    messages = [message(n, destination=TOPIC, body=body_of(FIRST_SEQ + n, BODY_BYTES)) for n in range(count)]
    outgoing = [OutgoingMessage(one, encode_message(one)) for one in messages]
    found: dict[str, float] = {}
    for name, open_side in (("ours", _ours), ("ansq", _ansq)):
        async with asyncio.timeout(WITHIN), open_side(nsqd) as side:
            await side.publish(outgoing[:BATCH])
            await side.consume(BATCH)
            begun = time.perf_counter()
            for first in range(0, count, BATCH):
                await side.publish(outgoing[first : first + BATCH])
            published = time.perf_counter()
            await side.consume(count)
            found[f"publish {name}"] = count / (published - begun)
            found[f"consume {name}"] = count / (time.perf_counter() - published)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.nsq_client")
    parser.add_argument("--nsqd", required=True, help="HOST:TCP_PORT/HTTP_PORT")
    parser.add_argument("--count", type=int, default=20_000, help="messages of each side")
    given = parser.parse_args()
    print(json.dumps(uvloop.run(_rates(given.nsqd, given.count))), flush=True)


if __name__ == "__main__":
    main()
