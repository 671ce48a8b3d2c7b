"""A transport's publishing beside the bare client: ``python -m bench.publishing NAME``, servers in ``BUS_*``.

Both publish one batch after the other, each confirmed by the broker before the next begins, as the receiver does. The
two take turns of a fraction of a second, so that they see the same machine. It prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle

import uvloop

from bench.bare_clients import BARE_CLIENTS, Publish
from bench.load import FIRST_SEQ, body_of
from bus.bootstrap.brokers import open_brokers
from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import OutgoingMessage, Transport
from bus.settings import Settings
from bus.testing.quarantine import ForbiddenQuarantine
from bus.testing.writes import message

CODE = "published"
BODY_BYTES = 1024
BATCHES = (64, 256)
TURN = 256
TURN_WITHIN = 30.0


@asynccontextmanager
async def opened(name: str, settings: Settings) -> AsyncIterator[tuple[Publish, Transport]]:
    """Open a transport as ``bus up`` does, with one subscription whose messages stay where they are."""
    (transport,) = [
        transport
        for transport in open_brokers(settings, ForbiddenQuarantine(), SystemClock())
        if transport.name == name
    ]

    async def publish(batch: Sequence[OutgoingMessage]) -> None:
        confirmed = await transport.publish(batch)
        if not all(confirmed):
            raise RuntimeError(f"{name}: {confirmed.count(False)} of {len(batch)} messages were not confirmed")

    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(transport.run())
            subscription = Subscription(destination=CODE, name="one", url="http://127.0.0.1:9/")
            await transport.ensure(Destination(code=CODE), [subscription])
            yield publish, transport
            running.cancel()
    finally:
        await transport.close()


async def seconds(publish: Publish, messages: Sequence[OutgoingMessage], batch: int) -> float:
    """Return how long it takes to publish messages; raises ``TimeoutError`` after a while."""
    started = time.perf_counter()
    async with asyncio.timeout(TURN_WITHIN):
        for first in range(0, len(messages), batch):
            await publish(messages[first : first + batch])
    return time.perf_counter() - started


async def rates(
    sides: dict[str, Publish], messages: Sequence[OutgoingMessage], batch: int, windows: int
) -> dict[str, list[float]]:
    """Return the messages a second of each side, window by window; in each, every side publishes all messages."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for publish in sides.values():
        await seconds(publish, messages, batch)
    # Every other turn in the opposite order, so that what one leaves behind meets both sides alike.
    orders = cycle([list(sides), list(reversed(sides))])
    for _ in range(windows):
        spent = dict.fromkeys(sides, 0.0)
        for first in range(0, len(messages), TURN):
            for name in next(orders):
                spent[name] += await seconds(sides[name], messages[first : first + TURN], batch)
        for name, total in spent.items():
            found[name].append(len(messages) / total)
    return found


async def measure(name: str, settings: Settings, count: int, windows: int) -> dict[int, dict[str, list[float]]]:
    """Return the rates of the transport and of the bare client by the size of a batch."""
    numbers = range(math.ceil(count / TURN) * TURN)
    messages = [message(n, destination=CODE, body=body_of(FIRST_SEQ + n, BODY_BYTES)) for n in numbers]
    outgoing = [OutgoingMessage(one, encode_message(one)) for one in messages]
    found = {}
    async with opened(name, settings) as (ours, _), BARE_CLIENTS[name].open(settings, CODE) as theirs:
        for batch in BATCHES:
            found[batch] = await rates({"transport": ours, "bare": theirs}, outgoing, batch, windows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.publishing")
    parser.add_argument("transport", choices=BARE_CLIENTS)
    parser.add_argument("--count", type=int, default=1_250, help="messages of each side in a window, at least")
    parser.add_argument("--windows", type=int, default=12, help="windows for each size of a batch")
    given = parser.parse_args()
    print(json.dumps(uvloop.run(measure(given.transport, Settings(), given.count, given.windows))))


if __name__ == "__main__":
    main()
