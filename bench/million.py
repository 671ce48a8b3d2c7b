"""``python -m bench.million --data DIR [--count N]``: fill the store of a data directory through its own port.

The subscriptions are there and paused, so that a bus on the directory sends nothing; look at it with ``bus up``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.population import DESTINATIONS, SUBSCRIPTIONS, Population, url_of, writes_of
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.ports.store import Store
from bus.registry import Registry
from bus.security.secrets import SecretBox
from bus.stores.sqlite import SqliteStore

MILLION = 1_000_000
BATCH = 2_000


async def fill(store: Store, population: Population, step: Callable[[int], None]) -> None:
    """Configure the destinations and write the messages; ``step`` hears how many were written, batch by batch."""
    registry = Registry(store, SecretBox(None))
    await registry.load()
    for code in DESTINATIONS:
        await registry.put_destination(Destination(code=code))
        for name in SUBSCRIPTIONS:
            await registry.put_subscription(
                Subscription(destination=code, name=name, url=url_of(name), paused=True, paused_reason="made by a tool")
            )
    for batch in population.batches(BATCH):
        await store.write(writes_of(batch))
        step(len(batch))


async def fill_directory(data: Path, population: Population, step: Callable[[int], None]) -> None:
    """Fill the embedded store of a data directory; made when it is not there."""
    store = await SqliteStore.open(data / "store", gather=1)
    try:
        await fill(store, population, step)
    finally:
        await store.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=(__doc__ or "").split("\n")[2])
    parser.add_argument("--data", type=Path, required=True, help="a data directory that no bus has open")
    parser.add_argument("--count", type=int, default=MILLION)
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    population = Population(given.count, time.time_ns() // 1_000_000)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("messages", total=given.count)
        asyncio.run(fill_directory(given.data, population, lambda more: progress.advance(task, more)))
    spent = time.monotonic() - began
    print(f"{given.count} messages in {given.data}, {given.count / spent:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
