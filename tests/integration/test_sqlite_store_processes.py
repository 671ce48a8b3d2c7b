"""Several processes on one embedded store: nothing is lost, given twice, or waited for without end."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest

from bus.domain.delivery.delivery import Status
from bus.errors import StoreUnavailable
from bus.stores.sqlite import SqliteStore, connection, locking
from bus.testing.store import MemoryStore
from bus.testing.writes import message, row
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until
from tests.integration.store_process import LANES, LATER, LONG, every_row, every_write, sent

pytestmark = pytest.mark.timeout(300)
SOON = 60.0
AT_ONCE = LONG / 2


class Crew:
    """The processes of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.members: list[Child] = []

    def start(self, role: str, seed: int = 0) -> Child:
        """Start a process and wait until it is ready to go."""
        argv = module("tests.integration.store_process", role, self.store, seed)
        child = Child(argv, log=self.folder / f"{role}-{seed}.log").start()
        self.members.append(child)
        return child

    def go(self) -> None:
        """Let them begin, all at the same time."""
        for child in self.members:
            child.ready_line(SOON)
        (self.folder / "go").touch()

    def stop(self) -> None:
        """Ask them to end, and check that none failed."""
        (self.folder / "stop").touch()
        self.join()

    def join(self) -> None:
        """Wait for all to end, and check that none failed."""
        for child in self.members:
            assert child.wait(SOON) == 0, child.output()

    def end(self) -> None:
        """Kill what is left."""
        for child in self.members:
            child.kill()


def reports(child: Child) -> list[dict[str, Any]]:
    """Return what a process reported so far, in whole lines."""
    text = child.log.read_text()
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")][1:]


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


@pytest.fixture
async def store(crew: Crew) -> AsyncIterator[SqliteStore]:
    """Open the crew's store in this process as well."""
    store = await SqliteStore.open(crew.store)
    yield store
    await store.close()


def check_files(directory: Path) -> None:
    """Have SQLite look over every file."""
    for path in [directory / "control.db", *directory.glob("traces-*.db")]:
        with apsw.Connection(str(path)) as opened:
            assert opened.pragma("integrity_check") == "ok", path


async def test_writers_of_the_same_messages_and_rows_agree_with_the_model(crew: Crew) -> None:
    for seed in range(3):
        crew.start("converge", seed)
    crew.go()
    crew.join()
    model = MemoryStore()
    await model.write(every_write())
    await model.compensate(every_row())
    store = await SqliteStore.open(crew.store)
    for number in range(50):
        assert await store.trace(sent(number).id) == await model.trace(sent(number).id)
        assert await store.message(sent(number).id) == await model.message(sent(number).id)
    assert await store.due(0) == await model.due(0)
    room = dict.fromkeys(LANES, 10_000)
    leases = [await one.lease(LATER, LATER + 1, room, 10_000) for one in (store, model)]
    found, expected = (sorted(rows, key=lambda row: (row.message_id, row.subscription)) for rows in leases)
    assert found == expected
    assert len(found) > 60
    await store.close()
    check_files(crew.store)


async def test_no_row_is_leased_twice_and_no_update_is_lost(crew: Crew, store: SqliteStore) -> None:
    await store.compensate([row(message(number), lane[1]) for number in range(300) for lane in LANES])
    children = [crew.start("lease", seed) for seed in range(3)]
    crew.go()
    crew.join()
    leases = Counter((one["name"], one["epoch"]) for child in children for one in reports(child))
    assert {name for name, _ in leases} == {message(n).id + lane[1] for n in range(300) for lane in LANES}
    assert set(leases.values()) == {1}
    assert all(reports(child) for child in children)
    counter = await store.get("c", "counter")
    assert counter is not None
    assert (int(counter.value), counter.version) == (60, 60)


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=[pytest.mark.proof, pytest.mark.timeout(900)])])
async def test_killed_writers_hold_nobody_up_and_lose_nothing(crew: Crew, kills: int) -> None:
    steady = [crew.start("write", seed) for seed in (1, 2)]
    victims = [crew.start("write", seed) for seed in range(3, 3 + 2)]
    crew.go()
    killed: list[Child] = []
    for seed in range(5, 5 + kills):
        victim = victims.pop(0)
        wait_until(lambda: len(reports(victim)) > random.randrange(200), within=SOON, what="reports", every=0.001)  # noqa: B023
        victim.kill()
        crew.members.remove(victim)
        killed.append(victim)
        counts = [len(reports(child)) for child in steady]
        begin = time.monotonic()
        for child, count in zip(steady, counts, strict=True):
            wait_until(lambda: len(reports(child)) > count + 5, within=SOON, what="others going on", every=0.005)  # noqa: B023
        assert time.monotonic() - begin < AT_ONCE
        victims.append(crew.start("write", seed))
    wait_for_more(steady)
    crew.stop()
    await check_reported(crew.store, [one for child in [*crew.members, *killed] for one in reports(child)])
    check_files(crew.store)


async def check_reported(directory: Path, reported: list[dict[str, Any]]) -> None:
    """Check that everything that returned is there, and that rows and states belong together."""
    store = await SqliteStore.open(directory)
    rows = await store.lease(LATER, LATER + 1, dict.fromkeys(LANES, 1 << 30), 1 << 30)
    leased = {one.message_id for one in rows}
    assert len(reported) > 100
    for one in reported:
        number = one["number"]
        if one["kind"] == "message":
            assert await store.message(sent(number).id) == sent(number)
        elif one["kind"] == "document":
            assert await store.get("c", str(number)) is not None
        else:
            trace = await store.trace(sent(number).id)
            status = Status.RETRYING if number % 3 else Status.DELIVERED
            assert trace is not None
            assert trace.deliveries["billing"].status is status
            assert (sent(number).id in leased) == (status is Status.RETRYING)
    assert sum((await store.due(0)).values()) == len(leased)
    await store.close()


def wait_for_more(children: list[Child]) -> list[int]:
    """Wait until each process has gone on for a while; return how many things each had reported before."""
    counts = [len(reports(child)) for child in children]
    wait_until(
        lambda: all(len(reports(child)) > count + 50 for child, count in zip(children, counts, strict=True)),
        within=SOON,
        what="every process going on",
        every=0.005,
    )
    return counts


async def test_partitions_that_are_taken_away_are_made_again(crew: Crew) -> None:
    """As a person does with damaged ones: what any process writes after that is whole."""
    writers = [crew.start("write", seed) for seed in (1, 2, 3)]
    crew.go()
    wait_for_more(writers)
    for turn in range(6):
        for path in crew.store.glob("traces-*.db"):
            path.rename(crew.folder / f"{turn}-{path.name}")
        counts = wait_for_more(writers)
    crew.stop()
    store = await SqliteStore.open(crew.store)
    for child, count in zip(writers, counts, strict=True):
        under_way = {one["number"] // 100_000: one for one in reversed(reports(child)[count:])}
        written = [one for one in reports(child)[count:] if one["kind"] == "message" and one not in under_way.values()]
        assert len(written) > 10
        for one in written:
            assert await store.message(sent(one["number"]).id) == sent(one["number"])
    await store.close()
    check_files(crew.store)


def test_processes_that_open_a_new_directory_at_the_same_time_all_can(crew: Crew) -> None:
    children = [crew.start("fresh", seed) for seed in range(4)]
    crew.go()
    for number in range(8):
        (crew.folder / f"go{number}").touch()
        for child in children:
            wait_until(
                lambda: len(reports(child)) > number or not child.running,  # noqa: B023
                within=SOON,
                what="opened",
                every=0.005,
                state=child.output,
            )
    crew.join()
    for number in range(8):
        asyncio.run(check_fresh(crew.folder / f"fresh{number}"))


async def check_fresh(directory: Path) -> None:
    store = await SqliteStore.open(directory)
    assert [await store.message(sent(seed).id) for seed in range(4)] == [sent(seed) for seed in range(4)]
    assert await store.due(0) == {LANES[0]: 4}
    assert len(await store.list("c")) == 4
    await store.close()


async def test_what_is_written_while_others_expire_is_kept_until_it_is_finished(crew: Crew) -> None:
    writers = [crew.start("remember", seed) for seed in (1, 2)]
    droppers = [crew.start("expire", seed) for seed in (3, 4)]
    crew.go()

    def dropped() -> int:
        for child in crew.members:
            child.check_running()
        return sum(one["dropped"] for child in droppers for one in reports(child))

    wait_until(lambda: dropped() >= 12, within=SOON, what="12 drops", state=dropped)
    crew.stop()
    assert all(reports(child) for child in writers)
    check_files(crew.store)


async def test_cancel_and_expire_at_the_same_time_end_everything(crew: Crew) -> None:
    pending = crew.start("pend", 1)
    others = [crew.start(role, seed) for role, seed in (("cancel", 2), ("cancel", 3), ("expire", 4), ("expire", 5))]
    crew.go()

    def dropped() -> int:
        for child in crew.members:
            child.check_running()
        return sum(one.get("dropped", 0) for child in others for one in reports(child))

    wait_until(lambda: dropped() >= 3 and len(reports(pending)) > 50, within=SOON, what="3 drops", state=dropped)
    crew.stop()
    store = await SqliteStore.open(crew.store)
    await store.cancel(*LANES[1], LATER)
    assert await store.due(0) == {}
    assert await store.unsettled(*LANES[1], LATER, 10) == []
    for one in reports(pending):
        trace = await store.trace(message(one["number"]).id)
        assert trace is None or trace.deliveries["mail"].status is Status.CANCELED
    await store.close()
    check_files(crew.store)


def stopped(child: Child) -> bool:
    return child.check_running() and psutil.Process(child.pid).status() == psutil.STATUS_STOPPED


async def waits(call: asyncio.Future[Any]) -> None:
    """Check that a call waits, and that the loop goes on meanwhile."""
    async with asyncio.timeout(AT_ONCE):
        for _ in range(50):
            await asyncio.sleep(0.002)
    assert not call.done()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process wait for others as long as they do."""
    for module_ in (connection, locking):
        monkeypatch.setattr(module_, "PATIENCE", LONG)


@pytest.mark.usefixtures("patient")
async def test_a_process_stopped_in_its_turn_delays_others_only_until_their_deadline(
    crew: Crew, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write([sent(0)])
    other = crew.start("stop_inside", 3)  # of the same partition
    crew.go()
    wait_until(lambda: stopped(other), within=SOON, what="stop", state=other.output)
    with monkeypatch.context() as hurried:
        hurried.setattr(locking, "PATIENCE", 0.5)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(store.write([sent(6)]), AT_ONCE)
    assert await store.message(sent(0).id) == sent(0)
    assert await store.put("c", "k", b"") == 1
    waiting = asyncio.ensure_future(store.write([sent(6)]))
    await waits(waiting)
    other.signal(signal.SIGCONT)
    await asyncio.wait_for(waiting, AT_ONCE)
    crew.join()
    assert reports(other) == [{"written": 3}]
    assert [await store.message(sent(n).id) for n in (0, 3, 6)] == [sent(0), sent(3), sent(6)]


@pytest.mark.usefixtures("patient")
async def test_a_process_killed_in_its_turn_delays_nobody(crew: Crew, store: SqliteStore) -> None:
    other = crew.start("stop_inside", 3)
    crew.go()
    wait_until(lambda: stopped(other), within=SOON, what="stop", state=other.output)
    writing = asyncio.ensure_future(store.write([sent(0)]))
    await waits(writing)
    other.kill()
    await asyncio.wait_for(writing, AT_ONCE)
    assert await store.trace(sent(3).id) is None


@pytest.mark.usefixtures("patient")
async def test_a_process_stopped_while_it_waits_delays_nobody_for_long(crew: Crew, store: SqliteStore) -> None:
    async with store._turn.held():
        other = crew.start("stop_waiting", 3)
        crew.go()
        wait_until(lambda: stopped(other), within=SOON, what="stop", state=other.output)
    for number in (0, 6):
        await asyncio.wait_for(store.write([sent(number)]), AT_ONCE)
    other.kill()
