"""A process that writes is killed at any moment; every write() that returned is there after."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bus.domain.delivery.delivery import Status
from bus.stores.sqlite import SqliteStore
from bus.testing.writes import DESTINATION, message

LANE = (DESTINATION, "billing")

WRITER = """
import asyncio, sys
from bus.domain.delivery.delivery import Status
from bus.stores.sqlite import SqliteStore
from bus.testing.writes import message, outcome

async def worker(store, first):
    for number in range(first, first + 100_000):
        sent = message(number)
        await store.write([sent])
        print("message", number, flush=True)
        status = Status.RETRYING if number % 3 else Status.DELIVERED
        await store.write([outcome(sent, "billing", status)])
        print("outcome", number, flush=True)
        await store.put("c", str(number), b"v")
        print("document", number, flush=True)

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await asyncio.gather(*(worker(store, int(sys.argv[2]) + n * 100_000) for n in range(8)))

asyncio.run(main())
"""


def killed(directory: Path, first: int, after: int) -> list[tuple[str, int]]:
    """Return what a writer reported before it was killed ``after`` reports and a random moment."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(first)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(after)]
    time.sleep(random.random() * 0.02)
    child.kill()
    lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return [(kind, int(number)) for kind, number in (line.split() for line in lines if line.endswith("\n"))]


async def check(directory: Path, reported: list[tuple[str, int]], now: int) -> None:
    store = await SqliteStore.open(directory)
    rows = await store.lease(now, now + 1, {LANE: 1 << 30}, 1 << 30)
    leased = {one.message_id for one in rows}
    for kind, number in reported:
        sent = message(number)
        if kind == "message":
            assert await store.message(sent.id) == sent
        elif kind == "document":
            assert await store.get("c", str(number)) is not None
        else:
            trace = await store.trace(sent.id)
            assert trace is not None
            status = Status.RETRYING if number % 3 else Status.DELIVERED
            assert trace.deliveries["billing"].status is status
            assert (sent.id in leased) == (status is Status.RETRYING)
    assert (await store.due(0)).get(LANE, 0) == len(leased)
    await store.close()


@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=[pytest.mark.proof, pytest.mark.timeout(900)])])
def test_what_returned_is_there_after_a_kill(tmp_path: Path, kills: int) -> None:
    reported: list[tuple[str, int]] = []
    for kill in range(kills):
        reported += killed(tmp_path, kill * 1_000_000, random.randrange(1, 400))
        asyncio.run(check(tmp_path, reported, (1 << 50) + kill))
