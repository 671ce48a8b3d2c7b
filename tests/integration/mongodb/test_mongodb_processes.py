"""Several processes write the same messages at the same time: what is there after is what the domain's merge gives."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.message import Message
from bus.ports.store import Store
from bus.stores.mongodb.merging import Merge
from bus.testing.clock import ManualClock
from bus.testing.contracts.store_traces import life
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, NOON, message, outcome, row
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until
from tests.servers.mongodb_fixtures import be_patient, database_url, drop, open_store

LANE = (DESTINATION, "billing")
MESSAGES = 16
PROCESSES = 2


def writes_of(number: int) -> list[Message | Outcome]:
    """Return what becomes of a message: a resend, failures, and states that race with each other."""
    sent = message(number)
    writes = life(sent)
    if number % 3 == 0:  # ends as a failure, whose row must stay
        writes = [*writes[:2], outcome(sent, "mail", Status.RETRYING, 2), outcome(sent, "billing", Status.DEAD, 1)]
    if number % 5 == 0:
        writes += [
            outcome(sent, "billing", Status.RESEND, 3, generation=1, attempt=None),
            outcome(sent, "billing", Status.RETRYING, 4, generation=1),
            outcome(sent, "late", Status.CANCELED, 0, attempt=None),
        ]
    return writes


def all_writes() -> list[Message | Outcome]:
    return [write for number in range(MESSAGES) for write in writes_of(number)]


async def rows_of(store: Store) -> list[Compensation]:
    room = {(DESTINATION, name): 10_000 for name in ("billing", "mail", "late")}
    rows = await store.lease(NOON * 2, NOON * 3, room, 10_000)
    return sorted(rows, key=lambda one: (one.message_id, one.subscription))


async def write_shuffled(url: str, seed: int) -> None:
    """Write everything in an order of its own, in batches of any size."""
    writes = all_writes()
    order = random.Random(seed)
    order.shuffle(writes)
    store = await open_store(url)
    while writes:
        size = order.randrange(1, 12)
        batch, writes = writes[:size], writes[size:]
        await store.write(batch)
    await store.close()


async def same_as_the_domain(url: str) -> None:
    model = MemoryStore()
    await model.write(all_writes())
    store = await open_store(url)
    for number in range(MESSAGES):
        name = message(number).id
        assert await store.trace(name) == await model.trace(name)
        assert await store.message(name) == await model.message(name)
    assert await rows_of(store) == await rows_of(model)
    await store.close()


def children(folder: Path, *argv: Sequence[object]) -> list[Child]:
    return [
        Child(module("tests.integration.mongodb.test_mongodb_processes", *each), log=folder / f"{number}.log").start()
        for number, each in enumerate(argv)
    ]


def finish(running: list[Child]) -> None:
    for child in running:
        wait_until(lambda child=child: not child.running, within=90, what="end of a writer", state=child.output)
        assert child.wait(1) == 0, child.output()


async def test_writers_in_several_processes_lose_nothing(database: str, tmp_path: Path) -> None:
    finish(children(tmp_path, *((database, seed) for seed in range(PROCESSES))))
    await same_as_the_domain(database)


async def test_writers_that_meet_at_every_write_lose_nothing(database: str) -> None:
    """Connections of one process, which are as far from each other as processes, but meet more often."""
    stores = [await open_store(database) for _ in range(3)]
    writes = all_writes()
    for start in range(0, len(writes), 6):
        batch = writes[start : start + 6]
        await asyncio.gather(*(store.write(batch[place:] + batch[:place]) for place, store in enumerate(stores)))
    for store in stores:
        await store.close()
    await same_as_the_domain(database)


async def test_what_another_writes_between_reading_and_writing_stays(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = [await open_store(database) for _ in range(2)]
    sent = message()
    await one.write([sent])
    meanwhile = [outcome(sent, "mail", Status.DELIVERED)]
    write = Merge.write

    async def written_before(self: Merge) -> None:
        if meanwhile:
            await other.write([meanwhile.pop()])
        await write(self)

    monkeypatch.setattr(Merge, "write", written_before)
    await one.write([outcome(sent, "billing", Status.DELIVERED)])
    trace = await one.trace(sent.id)
    assert trace is not None
    assert {name: each.status for name, each in trace.deliveries.items()} == dict.fromkeys(
        sent.expected, Status.DELIVERED
    )
    await other.close()
    await one.close()


async def test_a_row_made_while_another_process_delivers_does_not_stay(database: str) -> None:
    one, other = [await open_store(database) for _ in range(2)]
    for number in range(30):
        sent = message(number)
        await asyncio.gather(
            one.write([outcome(sent, "billing", Status.RETRYING)]),
            other.write([sent, outcome(sent, "billing", Status.DELIVERED, 2)]),
        )
    assert await one.due(0) == {}
    await other.close()
    await one.close()


async def test_processes_that_lease_share_nothing(database: str) -> None:
    stores = [await open_store(database) for _ in range(3)]
    await stores[0].compensate([row(message(number)) for number in range(90)])
    leases = await asyncio.gather(*(store.lease(NOON * 2, NOON * 3, {LANE: 40}, 40) for store in stores))
    names = [one.message_id for taken in leases for one in taken]
    assert len(names) == len(set(names)) == 90
    for store in stores:
        await store.close()


async def test_of_many_processes_compare_and_sets_one_wins(database: str) -> None:
    stores = [await open_store(database) for _ in range(4)]
    for version in range(5):
        puts = (store.put("c", "k", b"%d" % place, version=version) for place, store in enumerate(stores))
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 3 + ["int"]
    assert sorted(await asyncio.gather(*(store.put("c", "k", b"") for store in stores))) == [6, 7, 8, 9]
    for store in stores:
        await store.close()


async def test_a_partition_of_another_process_is_found_within_a_second(database: str) -> None:
    clock = ManualClock()
    one, other = [await open_store(database, clock=clock) for _ in range(2)]
    sent = message()
    assert await one.trace(sent.id) is None
    await other.write([sent])
    await clock.advance(1.1)
    assert await one.message(sent.id) == sent
    await other.close()
    await one.close()


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("patient")
async def test_writers_in_several_processes_lose_nothing_again_and_again(mongodb: str, tmp_path: Path) -> None:
    for turn in range(15):
        url = database_url(mongodb)
        finish(children(tmp_path, *((url, turn * 10 + seed) for seed in range(4))))
        await same_as_the_domain(url)
        drop(url)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        asyncio.run(write_shuffled(sys.argv[1], int(sys.argv[2])))
