"""The process that watches: what it tells, when, and what becomes of it over outages, kills and handovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec
import pytest

from bus.cluster.alarm_documents import AlarmDocuments, Trial
from bus.domain.health.channels import Channel, Silence
from bus.domain.health.facts import Facts, Part
from bus.domain.health.incidents import Acknowledgement, Incident
from bus.domain.health.rulebook import Change, Rulebook
from bus.domain.times import MINUTE
from bus.errors import StoreUnavailable
from bus.stores.own_events import OwnEvents
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from compensator.alarms.alarm_file import KeptWatch
from compensator.alarms.texts import Text
from compensator.alarms.trials import Trials
from compensator.alarms.watcher import INTERVAL, Watcher
from tests.unit.admin.incident_shapes import raised

ROLES = ("receiver", "dispatcher", "compensator")
BOOK = Rulebook({"part-down": Change(hold=10_000, clear=10_000)})
OPS = Channel("ops", "json://ops")
SECOND = Channel("second", "json://second")
KAFKA = Part("kafka", "it is away", "o1", "n1")


class Phone:
    """What channels were told; one that is ``deaf`` takes nothing, one that hangs waits."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.told: list[tuple[str, str]] = []
        self.deaf: set[str] = set()
        self.hanging: set[str] = set()
        self.slow: dict[str, float] = {}
        self.unpalatable: set[str] = set()

    async def tell(self, channel: Channel, text: Text, _: object) -> str:
        await self.clock.sleep(self.slow.get(channel.name, 0))
        if any(word in text.title for word in self.unpalatable):
            return "it refuses that text"
        if channel.name in self.hanging:
            await self.clock.sleep(30)
            return "it hangs"
        if channel.name in self.deaf:
            return "it is deaf"
        self.told.append((channel.name, text.title.removeprefix("Pier ").partition(":")[0]))
        return ""


class Disk:
    def __init__(self) -> None:
        self.content: bytes | None = None
        self.is_full = False
        self.writes = 0

    async def read(self) -> bytes | None:
        return self.content

    async def write(self, content: bytes) -> None:
        if self.is_full:
            raise OSError("full")
        self.content = content
        self.writes += 1


class Store(MemoryStore):
    down = False

    async def list(self, collection, **options):
        if self.down:
            raise StoreUnavailable("down")
        return await super().list(collection, **options)

    async def put(self, collection, key, value, *, version=None):
        if self.down:
            raise StoreUnavailable("down")
        return await super().put(collection, key, value, version=version)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store()
        self.documents = AlarmDocuments(self.store)
        self.phone = Phone(self.clock)
        self.parts: list[Part] = []
        self.is_blind = False
        self.has_events = False
        self.disk = Disk()

    async def facts(self) -> Facts:
        if self.is_blind:
            raise RuntimeError("a defect")
        return Facts(ROLES, self.clock.now(), parts=self.parts)

    def watcher(
        self, *channels: Channel, disk: Disk | None = None, is_first: Callable[[], bool] = lambda: True
    ) -> Watcher:
        kept = KeptWatch(self.documents, disk or self.disk)
        return Watcher(
            self.facts,
            kept,
            OwnEvents(self.store, lambda: self.has_events),
            channels,
            self.phone,
            BOOK,
            is_first,
            self.clock,
            lambda: 0.0,
            "",
        )

    @asynccontextmanager
    async def running(self, *watchers: Watcher) -> AsyncIterator[None]:
        """Run some; at the end they are killed where they stand."""
        tasks = [asyncio.create_task(one.run()) for one in watchers]
        await self.clock.settle()
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def world() -> World:
    return World()


async def test_it_tells_once_that_it_opens_and_once_that_it_is_over(world: World) -> None:
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
        assert world.phone.told == []
        world.parts = [KAFKA]
        await world.clock.advance(10)
        assert world.phone.told == []
        await world.clock.advance(10)
        assert world.phone.told == [("ops", "critical")]
        await world.clock.advance(600)
        world.parts = []
        await world.clock.advance(30)
        assert [said.split(" ")[0] for _, said in world.phone.told] == ["critical", "over"]
        await world.clock.advance(600)
    assert len(world.phone.told) == 2


async def test_a_quiet_bus_writes_nothing(world: World) -> None:
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(3600)
    assert world.disk.writes == 0
    assert await world.documents.incidents() == []


async def test_a_channel_that_does_not_take_it_is_told_until_it_does_and_holds_up_no_other(world: World) -> None:
    world.phone.deaf = {"ops"}
    watcher = world.watcher(OPS, SECOND)
    world.parts = [KAFKA]
    async with world.running(watcher):
        await world.clock.advance(120)
        assert world.phone.told == [("second", "critical")]
        assert "it is deaf" in str(watcher.trouble)
        world.phone.deaf = set()
        await world.clock.advance(300)
        assert world.phone.told == [("second", "critical"), ("ops", "critical")]
        assert watcher.trouble == ""


async def test_one_that_hangs_holds_up_no_other(world: World) -> None:
    world.phone.hanging = {"ops"}
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS, SECOND)):
        await world.clock.advance(20)
        assert world.phone.told == [("second", "critical")]


async def test_what_was_over_before_a_channel_took_it_is_told_all_the_same(world: World) -> None:
    world.phone.deaf = {"ops"}
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(30)
    world.parts = []
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
        world.phone.deaf = set()
        await world.clock.advance(300)
    ((_, said),) = world.phone.told
    assert said.startswith("over after")


async def test_one_that_is_killed_tells_nobody_twice(world: World) -> None:
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
    for _ in range(3):
        async with world.running(world.watcher(OPS)):
            await world.clock.advance(60)
    assert world.phone.told == [("ops", "critical")]


async def test_one_on_another_machine_goes_on_from_the_store(world: World) -> None:
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(40)
    async with world.running(world.watcher(OPS, disk=Disk())):
        await world.clock.advance(60)
        assert world.phone.told == [("ops", "critical")]
        world.parts = []
        await world.clock.advance(60)
    assert len(world.phone.told) == 2


async def test_of_two_one_tells_and_the_other_takes_over(world: World) -> None:
    world.parts = [KAFKA]
    is_alone = False
    second = world.watcher(OPS, disk=Disk(), is_first=lambda: is_alone)
    async with world.running(second):
        await world.clock.advance(60)
        assert world.phone.told == []
        is_alone = True
        await world.clock.advance(60)
        assert world.phone.told == [("ops", "critical")]


async def test_without_the_store_people_are_told_and_a_restart_knows_of_what(world: World) -> None:
    world.store.down = True
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
        assert world.phone.told == [("ops", "critical")]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
        assert world.phone.told == [("ops", "critical")]
        world.store.down = False
        await world.clock.advance(10)
        (stored,) = await world.documents.incidents()
        assert set(stored.told) == {"ops"}


async def test_without_a_disk_people_are_told(world: World) -> None:
    world.disk.is_full = True
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
    assert world.phone.told == [("ops", "critical")]


@pytest.mark.parametrize("content", [b"", b"rubbish", msgspec.msgpack.encode({"at": "x"})])
async def test_rubbish_on_its_disk_stops_nobody(world: World, content: bytes) -> None:
    world.disk.content = content
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
    assert world.phone.told == [("ops", "critical")]
    assert b"part:kafka" in world.disk.content


async def test_rubbish_in_the_store_stops_nobody(world: World) -> None:
    await world.store.put("incidents", "x", b"rubbish")
    await world.store.put("silences", "x", b"{}")
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
    assert world.phone.told == [("ops", "critical")]


async def test_who_takes_it_on_spares_the_next(world: World) -> None:
    late = SECOND._replace(after=2 * MINUTE)
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS, late)):
        await world.clock.advance(60)
        (stored,) = await world.documents.incidents()
        await world.documents.acknowledge(stored.id, Acknowledgement("eve", world.clock.now()))
        await world.clock.advance(600)
        assert world.phone.told == [("ops", "critical")]
        (stored,) = await world.documents.incidents()
        assert stored.acknowledged is not None


async def test_who_is_told_next_is_told_where_nobody_does(world: World) -> None:
    late = SECOND._replace(after=2 * MINUTE)
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS, late)):
        await world.clock.advance(150)
        assert world.phone.told == [("ops", "critical"), ("second", "critical")]


async def test_a_silence_is_kept_and_what_is_left_after_it_is_told(world: World) -> None:
    silence = Silence(id="1", until=world.clock.now() + 5 * MINUTE, by="eve", at=0, rule="part-*")
    await world.documents.silence(silence)
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(240)
        assert world.phone.told == []
        await world.clock.advance(120)
        assert world.phone.told == [("ops", "critical")]


async def test_a_heartbeat_comes_as_long_as_it_looks(world: World) -> None:
    beat = Channel("beat", "json://beat", heartbeat=MINUTE)
    async with world.running(world.watcher(beat)):
        await world.clock.advance(150)
        assert world.phone.told == [("beat", "watches")] * 3
        world.is_blind = True
        await world.clock.advance(600)
        assert len(world.phone.told) == 3
        world.is_blind = False
        await world.clock.advance(60)
        assert len(world.phone.told) == 4


async def test_what_is_long_over_leaves_the_store(world: World) -> None:
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
        (stored,) = await world.documents.incidents()
        await world.documents.acknowledge(stored.id, Acknowledgement("eve", 1))
        world.parts = []
        await world.clock.advance(60)
        world.clock.jump(8 * 24 * 60 * MINUTE)
        await world.clock.advance(2 * INTERVAL)
        assert await world.documents.incidents() == []
        assert await world.documents.acknowledged() == {}


@contextmanager
def trying(world: World, *channels: Channel) -> Iterator[None]:
    trials = Trials(world.documents, channels, world.phone, lambda: True, world.clock, "")
    task = asyncio.ensure_future(trials.run())
    yield
    task.cancel()


async def test_a_trial_tells_which_channels_took_it(world: World) -> None:
    world.phone.deaf = {"second"}
    with trying(world, OPS, SECOND):
        await world.documents.ask_for_trial("1", Trial("eve", world.clock.now()))
        await world.documents.ask_for_trial("2", Trial("eve", world.clock.now(), "nope"))
        await world.clock.advance(3)
        first, second = await world.documents.trial("1"), await world.documents.trial("2")
        assert first is not None
        assert first.results == {"ops": "", "second": "it is deaf"}
        assert second is not None
        assert "there are: ops, second" in str((second.results or {})["nope"])
        assert len(world.phone.told) == 1
        await world.clock.advance(3700)
        assert await world.documents.trials() == {}


async def test_trials_wait_for_the_store(world: World) -> None:
    with trying(world, OPS):
        await world.documents.ask_for_trial("1", Trial("eve", world.clock.now()))
        world.store.down = True
        await world.clock.advance(60)
        assert world.phone.told == []
        world.store.down = False
        await world.clock.advance(3)
        assert len(world.phone.told) == 1


NSQ = Part("nsq", "it is away", "o1", "n1")
RABBITMQ = Part("rabbitmq", "it is away", "o1", "n1")


async def test_a_slow_channel_wipes_nothing_that_others_were_told_meanwhile(world: World) -> None:
    world.phone.slow = {"ops": 20.0}
    world.parts = [KAFKA, NSQ, RABBITMQ]
    watcher = world.watcher(OPS, SECOND)
    async with world.running(watcher):
        await world.clock.advance(30)
        world.parts = [KAFKA]
        await world.clock.advance(200)
    told = [name for name, _ in world.phone.told]
    assert told.count("second") == 5
    assert told.count("ops") <= 5
    assert len(watcher._watch.open) == 1


async def test_a_notice_that_a_channel_never_takes_holds_up_no_other(world: World) -> None:
    world.phone.unpalatable = {"kafka"}
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
        world.parts = [KAFKA, NSQ]
        await world.clock.advance(400)
    assert world.phone.told == [("ops", "critical")]


async def test_one_that_waits_forgets_nothing_while_the_store_is_away(world: World) -> None:
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(40)
    is_alone = False
    second = world.watcher(OPS, disk=Disk(), is_first=lambda: is_alone)
    async with world.running(second):
        await world.clock.advance(20)
        world.store.down = True
        await world.clock.advance(20)
        is_alone = True
        await world.clock.advance(20)
        world.store.down = False
        await world.clock.advance(60)
        assert world.phone.told == [("ops", "critical")]
        assert len(await world.documents.incidents()) == 1


async def test_what_another_one_opened_while_the_store_was_away_from_this_one_is_known(world: World) -> None:
    world.store.down = True
    first = world.watcher(OPS)
    async with world.running(first):
        await world.clock.advance(20)
        world.store.down = False
        elsewhere = Incident(id="x", cause="role:receiver", opened_at=1, alarms={"role-missing:receiver": raised(None)})
        await world.documents.put_incident(elsewhere)
        await world.clock.advance(120)
        (stored,) = await world.documents.incidents()
        assert stored.closed_at


async def test_an_incident_of_a_rule_of_another_version_stops_nobody(world: World) -> None:
    alarm = msgspec.structs.replace(raised(None), rule="of-tomorrow")
    await world.documents.put_incident(Incident(id="x", cause="c", opened_at=1, alarms={"of-tomorrow:x": alarm}))
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(20)
        assert ("ops", "critical") in world.phone.told
        await world.clock.advance(90)
        assert all(one.closed_at for one in await world.documents.incidents() if one.id == "x")


async def test_a_clock_that_is_put_back_delays_nobody(world: World) -> None:
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(6)
        world.clock.jump(-60 * MINUTE)
        await world.clock.advance(25)
        assert world.phone.told == [("ops", "critical")]
        world.parts = []
        await world.clock.advance(6)
        world.clock.jump(-60 * MINUTE)
        await world.clock.advance(30)
        assert len(world.phone.told) == 2


@pytest.mark.parametrize("minutes", [-60, 60])
@pytest.mark.parametrize("second", [0, 1, 2, 3, 4])
async def test_a_clock_that_is_set_makes_nothing_last_longer_or_shorter(
    world: World, minutes: int, second: int
) -> None:
    world.parts = [KAFKA]
    escalated = SECOND._replace(after=15 * MINUTE)
    async with world.running(world.watcher(OPS._replace(repeat=30 * MINUTE), escalated)):
        await world.clock.advance(4)
        world.clock.jump(minutes * MINUTE)
        await world.clock.advance(4)
        assert world.phone.told == []
        await world.clock.advance(6 + second)
        assert world.phone.told == [("ops", "critical")]
        world.clock.jump(minutes * MINUTE)
        await world.clock.advance(90 - second)
        assert len(world.phone.told) == 1, "no notification is repeated before it is due"
        await world.clock.advance(1800)
        assert sorted(world.phone.told[1:]) == [
            ("ops", "still critical, and nobody has acknowledged it"),
            ("second", "critical"),
        ]
        world.parts = []
        await world.clock.advance(30)
    assert {said for _, said in world.phone.told[3:]} == {"over after 31m"}


@pytest.mark.parametrize("minutes", [-60, 60])
async def test_a_clock_that_was_set_while_another_one_told_shifts_nothing(world: World, minutes: int) -> None:
    first = True
    a = world.watcher(OPS._replace(repeat=30 * MINUTE), is_first=lambda: first)
    b = world.watcher(OPS._replace(repeat=30 * MINUTE), disk=Disk(), is_first=lambda: not first)
    async with world.running(a), world.running(b):
        await world.clock.advance(20)
        first = False
        await world.clock.advance(10)
        world.clock.jump(minutes * MINUTE)
        world.parts = [KAFKA]
        await world.clock.advance(60)
        assert world.phone.told == [("ops", "critical")]
        first = True
        await world.clock.advance(60)
        (incident,) = await world.documents.incidents()
        assert 0 < world.clock.now() - incident.opened_at < 2 * MINUTE
        assert len(world.phone.told) == 1


async def test_a_silence_holds_over_a_restart_also_without_the_store(world: World) -> None:
    await world.documents.silence(Silence(id="1", until=world.clock.now() + 60 * MINUTE, by="eve", at=0, rule="part-*"))
    world.parts = [KAFKA]
    async with world.running(world.watcher(OPS)):
        await world.clock.advance(60)
    for down in (False, True):
        world.store.down = down
        async with world.running(world.watcher(OPS)):
            await world.clock.advance(60)
    assert world.phone.told == []


async def test_without_the_store_one_that_is_not_the_first_tells_too(world: World) -> None:
    world.parts = [KAFKA]
    second = world.watcher(OPS, disk=Disk(), is_first=lambda: False)
    async with world.running(second):
        await world.clock.advance(120)
        assert world.phone.told == []
        world.store.down = True
        await world.clock.advance(120)
        assert world.phone.told == [("ops", "critical")]
        world.store.down = False
        await world.clock.advance(20)
        assert not second.is_telling


async def test_a_heartbeat_that_was_not_taken_comes_again_soon(world: World) -> None:
    world.phone.deaf = {"beat"}
    async with world.running(world.watcher(Channel("beat", "json://beat", heartbeat=60 * MINUTE))):
        await world.clock.advance(20)
        world.phone.deaf = set()
        await world.clock.advance(10)
    assert world.phone.told == [("beat", "watches")]
