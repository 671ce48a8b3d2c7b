"""A process that appends, claims and acks, and prints what it was told, for tests that kill it.

Run ``python -m tests.integration.spool.writer DIRECTORY DRIVER SEED CALLS [SYNCHRONOUS]``.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

from bus.errors import SpoolError, SpoolFull
from bus.spool import AsyncSpool, BlockingSpool, Options
from bus.spool.file import SpoolFile
from tests.integration.spool.history import LANES, number_of, record

SIZES = [10, 300, 1000, 5000]


def say(kind: str, numbers: list[int]) -> None:
    """Tell the parent, in one write, which a kill cannot tear."""
    os.write(1, f"{kind} {' '.join(map(str, numbers))}\n".encode())


def blocking(directory: Path, random: Random, calls: int, file_class: type[SpoolFile]) -> None:
    numbers = itertools.count(int(os.environ.get("FIRST", "0")))
    with BlockingSpool(directory, Options(file_class=file_class)) as spool:
        say("open", [])
        for _ in range(calls):
            call = [next(numbers) for _ in range(random.randint(1, 4))]
            say("try", call)
            spool.append([record(number, random.choice(SIZES)) for number in call])
            say("ok", call)
            if random.random() < 0.4:
                records = spool.claim("send", random.randint(1, 5), random.choice(LANES))
                say("ack", [number_of(found.payload) for found in records])
                spool.ack("send", records)
            if random.random() < 0.2:
                spool.settle()
                say("settled", [])
        say("closing", [])
    say("settled", [])


def concurrent(directory: Path, random: Random, calls: int, file_class: type[SpoolFile]) -> None:
    asyncio.run(_concurrent(directory, random, calls, file_class))


async def _concurrent(directory: Path, random: Random, calls: int, file_class: type[SpoolFile]) -> None:
    numbers = itertools.count(int(os.environ.get("FIRST", "0")))
    async with await AsyncSpool.open(directory, Options(file_class=file_class)) as spool:
        say("open", [])

        async def append() -> None:
            for _ in range(calls // 8):
                call = [next(numbers) for _ in range(random.randint(1, 4))]
                say("try", call)
                await spool.append([record(number, random.choice(SIZES)) for number in call])
                say("ok", call)

        async def consume() -> None:
            while True:
                await spool.wait("send")
                for lane in spool.lanes("send"):
                    records = await spool.claim("send", 3, lane)
                    say("ack", [number_of(found.payload) for found in records])
                    spool.ack("send", records)
                await spool.settle()
                say("settled", [])

        consumer = asyncio.create_task(consume())
        await asyncio.gather(*[append() for _ in range(8)])
        consumer.cancel()
        await asyncio.gather(consumer, return_exceptions=True)


def careless(synchronous: str) -> type[SpoolFile]:
    return type("Careless", (SpoolFile,), {"synchronous": synchronous})


DRIVERS: dict[str, Callable[[Path, Random, int, type[SpoolFile]], None]] = {
    "blocking": blocking,
    "concurrent": concurrent,
}


def main() -> int:
    directory, driver, seed, calls, *synchronous = sys.argv[1:]
    file_class = careless(synchronous[0]) if synchronous else SpoolFile
    try:
        DRIVERS[driver](Path(directory), Random(int(seed)), int(calls), file_class)
    except SpoolFull:
        return 4
    except SpoolError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
