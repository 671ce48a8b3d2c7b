"""Directories that are swept and not swept, and isolation of faults between them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.json import encode

from bus.bootstrap import RoleServices
from bus.bootstrap.identity import claim_name
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER
from bus.client.spooling.line import Line, encode_line
from bus.clock import SystemClock
from bus.cluster.leaders import COLLECTION, Lead, Task
from bus.cluster.member import Member
from bus.domain.health.vitals import UnreachableProcess
from bus.domain.identity import new_id
from bus.domain.message import encode_message
from bus.ports.spool import NewRecord
from bus.spool import AsyncSpool
from bus.spool import Options as SpoolOptions
from bus.spool.retire import remove
from bus.stores.own_events import OwnEvents
from bus.testing.cluster import alone, leading
from bus.testing.writes import DESTINATION, message
from compensator.sweeper.service import SweeperService
from tests.integration.client.fake_receiver import FakeReceiver, status
from tests.unit.compensator.compensator_world import World
from tests.unit.compensator.test_orphaned_files import service, told

IDLE = 60


class Ground:
    """Folders below a root, and a sweeper over it."""

    def __init__(self, root: Path, world: World) -> None:
        self.root = root
        self.world = world
        self.members: list[Member] = []
        self.unreachable: list[UnreachableProcess] = []
        settings = SimpleNamespace(sweep=f"{root}, {root / 'none'}", sweep_idle=IDLE, data=root, api_key="")
        context = SimpleNamespace(
            settings=settings,
            store=world.store,
            registry=world.registry,
            router=world.router,
            events=world.events,
            spans=world.spans,
            clock=SystemClock(),
            members=SimpleNamespace(all=self.members, unreachable=self.unreachable, forget=self.forget),
            leaders=leading(world.store, alone(world.store, SystemClock()), SystemClock()),
            peers=None,
            rollups=world.rollups,
            own_events=OwnEvents(world.store, lambda: False),
        )
        self.sweeper = SweeperService(context, RoleServices())  # type: ignore[arg-type]

    async def forget(self, owners: set[str]) -> None:
        self.unreachable[:] = [one for one in self.unreachable if one.owner not in owners]

    async def direct(self, data: Path, *, idle: bool = True) -> Path:
        """Leave a dispatcher's queue behind."""
        spool = await AsyncSpool.open(data / "direct", SpoolOptions(consumers=()))
        spool.attach(DESTINATION, "billing")
        await spool.append([NewRecord(DESTINATION, encode_message(message(1)), 1)])
        await spool.close()
        if idle:
            age(data / "direct")
        return data / "direct"

    def producer(self, count: int = 3) -> Path:
        """Leave a producer's queue behind."""
        spool = home.open_home(self.root, "shop", SpoolOptions(consumers=(CONSUMER,)))
        now = SystemClock().now()
        lines = [Line(id=new_id(now + number), destination=DESTINATION, body_base64=b"x") for number in range(count)]
        spool.append([NewRecord(f"out/{DESTINATION}", encode_line(line), now) for line in lines])
        spool.close()
        age(spool.directory)
        return spool.directory

    def receiver(self, url: str) -> None:
        self.members.append(
            Member(owner=url, node="r", url=url, roles=("receiver",), version="1", started_at=0),
        )

    async def sweep(self) -> None:
        await self.sweeper._attempt(self.root, self.sweeper._sweep)


def age(directory: Path, seconds: float = IDLE + 1) -> None:
    """Have it look untouched for so long; touched at a time still to come when below zero."""
    then = time.time() - seconds
    for path in (*directory.iterdir(), directory):
        os.utime(path, (then, then))


@pytest.fixture
async def ground(tmp_path: Path) -> Ground:
    world = World()
    await world.destination()
    await world.subscription()
    return Ground(tmp_path, world)


async def test_a_queue_whose_process_is_gone_is_emptied_and_removed(ground: Ground) -> None:
    directories = [await ground.direct(ground.root), await ground.direct(ground.root / "dispatcher-2")]
    await ground.sweep()
    assert not any(directory.exists() for directory in directories)
    assert (ground.root / "dispatcher-2").exists()
    assert await ground.world.store.due(0) == {(DESTINATION, "billing"): 1}


async def test_a_queue_that_was_touched_lately_is_left_to_its_process(ground: Ground) -> None:
    directory = await ground.direct(ground.root, idle=False)
    await ground.sweep()
    assert directory.exists()
    assert await ground.world.store.due(0) == {}


async def test_a_queue_whose_process_lives_is_left_alone_however_old(ground: Ground) -> None:
    directory = await ground.direct(ground.root)
    spool = await AsyncSpool.open(directory, SpoolOptions(consumers=()))
    age(directory)
    await ground.sweep()
    assert spool.stats().records == 1
    await spool.close()


async def test_data_directories_stores_and_quarantines_are_never_touched(ground: Ground) -> None:
    """Even when a data directory has the name of a queue."""
    precious = []
    for place in ("receiver/store/trace.db", "receiver/receiver-9/keep", "prod/direct/store/x", "direct/notes.txt"):
        path = ground.root / place
        path.parent.mkdir(parents=True)
        path.write_text("precious")
        precious.append(path)
    spool = await AsyncSpool.open(ground.root / "quarantine", SpoolOptions(consumers=("operator",)))
    await spool.close()
    precious.append(ground.root / "quarantine" / "spool.db")
    for path in precious:
        age(path.parent)
    before = sorted(ground.root.rglob("*"))
    await ground.sweep()
    assert sorted(ground.root.rglob("*")) == before


async def test_evidence_of_damage_keeps_the_directory(ground: Ground) -> None:
    directory = await ground.direct(ground.root)
    (directory / "damaged").mkdir()
    age(directory)
    await ground.sweep()
    assert (directory / "damaged").exists()
    assert await ground.world.store.due(0) == {(DESTINATION, "billing"): 1}
    assert not remove(directory)


async def test_trouble_with_one_queue_holds_up_no_other(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = await ground.direct(ground.root / "a"), await ground.direct(ground.root / "b")
    plain = ground.sweeper._drain.drain

    async def drain(directory: Path) -> object:
        if directory == bad:
            raise ExceptionGroup("of a task", [RuntimeError("broken")])
        return await plain(directory)

    ground.sweeper._drain.drain = drain  # type: ignore[method-assign, assignment]
    await ground.sweep()
    assert bad.exists()
    assert not good.exists()
    assert "stays as it is" in caplog.text


async def test_another_users_queue_is_told_of_once_and_holds_up_no_other(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    foreign, own = ground.producer(), ground.producer()
    plain = home.is_live

    def is_live(directory: Path) -> bool:
        if directory == foreign:
            raise PermissionError(13, "denied")
        return plain(directory)

    monkeypatch.setattr(home, "is_live", is_live)
    monkeypatch.setattr(home.os, "access", lambda path, _: path != foreign)
    with FakeReceiver() as receiver:
        ground.receiver(receiver.url)
        for _ in range(2):
            ground.sweeper._look()
            await ground.sweep()
    assert foreign.exists()
    assert not own.exists()
    assert caplog.text.count(f"the queue {foreign} is another user's") == 1


async def test_a_store_that_is_away_ends_nothing(ground: Ground) -> None:
    directory = await ground.direct(ground.root)

    async def down(_: object) -> None:
        raise OSError("down")

    ground.world.store.compensate = down  # type: ignore[method-assign, assignment]
    await ground.sweep()
    assert directory.exists()
    spool = await AsyncSpool.open(directory, SpoolOptions(consumers=()))
    assert spool.stats().records == 1
    await spool.close()


async def test_a_producers_queue_goes_to_a_receiver(ground: Ground) -> None:
    directory = ground.producer()
    await ground.sweep()
    assert directory.exists()
    with FakeReceiver() as receiver:
        ground.receiver(receiver.url)
        await ground.sweep()
        assert len(receiver.taken) == 3
    assert not directory.exists()


async def test_a_receiver_that_refuses_is_followed_by_another_one(ground: Ground) -> None:
    directory = ground.producer()
    with FakeReceiver(status(507), status(507)) as full, FakeReceiver() as other:
        ground.receiver(full.url)
        ground.receiver(other.url)
        for _ in range(2):
            age(directory)
            await ground.sweep()
        assert len(other.taken) == 3
    assert not directory.exists()


async def test_a_stop_does_not_wait_for_a_long_queue(ground: Ground) -> None:
    directory = ground.producer(3000)
    with FakeReceiver() as receiver:
        ground.receiver(receiver.url)
        ready, stopping = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(ground.sweeper.run(ready, stopping))
        await asyncio.to_thread(receiver.wait, lambda: receiver.requests)
        stopping.set()
        await running
        await asyncio.get_running_loop().shutdown_default_executor()
        assert len(receiver.taken) < 3000
    spool = home.adopt(directory, SpoolOptions(consumers=(CONSUMER,)))
    assert spool is not None
    assert spool.stats().records == 3000 - len(receiver.ids())
    spool.close()


async def test_what_is_orphaned_is_told_with_what_the_last_attempt_left(ground: Ground) -> None:
    directory, queue = ground.producer(), await ground.direct(ground.root / "a")
    offers = ground.sweeper.offers
    assert offers.swept == (str(ground.root), str(ground.root / "none"))
    ground.sweeper._look()
    found = {orphan.directory: orphan for orphan in offers.orphans()}
    assert {path: orphan.kind for path, orphan in found.items()} == {str(directory): "producer", str(queue): "direct"}
    assert all(orphan.records is None and orphan.bytes > 0 and not orphan.trouble for orphan in found.values())
    with FakeReceiver(status(403)) as receiver:
        ground.receiver(receiver.url)
        await ground.sweep()
    ground.sweeper._look()
    (left,) = offers.orphans()
    assert (left.directory, left.records) == (str(directory), 3)
    assert left.trouble
    assert not ground.sweeper._is_idle(directory)
    for seconds in (IDLE + 1, -86_400):  # the latter by a clock that was ahead
        age(directory, seconds)
        ground.sweeper._look()
        assert ground.sweeper._is_idle(directory)  # to look is not to touch


async def test_a_service_that_is_gone_leaves_nothing_and_a_producers_root_no_events(ground: Ground) -> None:
    ground.sweeper._context.settings.sweep_idle = 0
    data, producers = ground.root / "dispatcher-2", ground.root / "producers"
    await ground.direct(await service(data))
    for folder in (data / "events", producers / "events"):
        told(folder)
        age(folder)
    await ground.sweep()
    await ground.sweep()
    assert not data.exists()
    assert not (producers / "events").exists()
    assert len(ground.world.events.forwarded) == 2


async def test_while_the_store_is_in_doubt_no_copy_of_the_configuration_is_removed(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = await service(ground.root / "dispatcher-2")
    monkeypatch.setattr("bus.registry.Registry.trouble", "the store was wiped")
    ground.sweeper._context.settings.sweep_idle = 0
    await ground.sweep()
    assert data.exists()


async def test_a_service_that_is_gone_for_a_moment_keeps_its_directory(ground: Ground) -> None:
    data = await service(ground.root / "admin-1")
    await ground.sweep()
    assert data.exists()


async def test_a_process_does_not_come_back_while_its_order_is_given_to_others(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would read that it has the task, and accept what the next one's messages overtake."""
    with claim_name(ground.root, ("dispatcher", "receiver")) as former:
        pass
    leaders = ground.sweeper._context.leaders
    await ground.world.store.put(COLLECTION, f"{DESTINATION}/{Task.ACCEPTING}", encode(Lead(former, 1)))
    await leaders.step()
    names: list[str] = []
    release = leaders.release_all

    async def comes_back(owners: set[str]) -> int:
        with claim_name(ground.root, ("dispatcher", "receiver")) as name:
            names.append(name)
        return await release(owners)

    monkeypatch.setattr(leaders, "release_all", comes_back)
    await ground.sweep()
    assert names
    assert former not in names
    assert not leaders.keeps_any({former})


async def test_an_unreachable_process_is_listed_until_its_queues_are_empty(ground: Ground) -> None:
    with claim_name(ground.root, ("dispatcher", "receiver")) as former:
        pass
    ground.unreachable += [
        UnreachableProcess(name, "n", "u", ("dispatcher",), 1, 1, name, (), False) for name in (former, "elsewhere")
    ]
    await ground.direct(ground.root, idle=False)
    await ground.sweep()
    assert [one.owner for one in ground.unreachable] == [former, "elsewhere"]
    age(ground.root / "direct")
    await ground.sweep()
    await ground.sweep()
    assert [one.owner for one in ground.unreachable] == ["elsewhere"]
