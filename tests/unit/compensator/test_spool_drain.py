"""Records in the queues of a dead service go where they were going."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from bus.bootstrap.spools import QUEUES, open_left
from bus.clock import SystemClock
from bus.cluster.leaders import COLLECTION, Lead, Task
from bus.domain.delivery.delivery import Origin, Outcome, Status, encode_outcome
from bus.domain.delivery.reasons import BEHIND
from bus.domain.destination import Destination, Ordering
from bus.domain.lanes import STORE, accepted_lane, moved_lane, unfinished_lane
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.domain.tracing.events import Stage
from bus.errors import SpoolLocked, StoreError
from bus.ports.spool import NewRecord
from bus.ports.transport import OutgoingMessage
from bus.spool.transaction import SWEEP
from bus.testing.cluster import alone, leading
from bus.testing.store import tell_nobody
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message, outcome
from bus.transports.publishing import DestinationPublisher
from compensator.sweeper.ordered_drain import OrderedDrain
from compensator.sweeper.spool_drain import SpoolDrain
from tests.unit.compensator.compensator_world import LANE, FickleStore, World


class Store(FickleStore):
    async def write(self, writes):
        self._check()
        await super().write(writes)

    async def compensate(self, rows):
        self._check()
        await super().compensate(rows)


class Ground:
    """The queues of a dead process, in a journal or as before there was one, and a bus to move them to."""

    def __init__(self, folder: Path, world: World, *, has_journal: bool) -> None:
        self.folder = folder
        self._has_journal = has_journal
        self.world = world
        self.store = world.store = Store()
        self.counted: list[Message | Outcome] = []
        publisher = DestinationPublisher(world.router, world.events, SystemClock())
        self.handed: list[tuple[str, str]] = []
        self.takes = 0
        members = alone(self.store, SystemClock(), roles=("dispatcher", "receiver"))
        self.leaders = leading(self.store, members, SystemClock())
        ordered = OrderedDrain(self.store, world.registry, self.leaders, self, SystemClock())  # type: ignore[arg-type]
        self.drain = SpoolDrain(
            self.store, world.registry, publisher, ordered, SystemClock(), self.counted.extend, tell_nobody
        )

    async def hand(self, subscription: Subscription, messages: Sequence[Message]) -> int:
        """Take messages as the dispatcher does that delivers them, as many as it has room for."""
        taken = messages[: self.takes]
        self.handed += [(subscription.name, one.id) for one in taken]
        return len(taken)

    def dead(self, name: str = "d" * 32) -> str:
        """Leave the name of a process that did everything."""
        directory = self.folder / "processes" / "dispatcher-receiver-1"
        directory.mkdir(parents=True)
        (directory / "name").write_text(name)
        return name

    def now(self) -> int:
        return SystemClock().now()

    async def spool(self, name: str, records: Sequence[NewRecord], *, attach: Sequence[tuple] = ()) -> Path:
        """Leave a spool behind."""
        directory = self.folder / ("journal" if self._has_journal else name)
        async with open_left(directory) as spools:
            for lane, consumer in attach:
                spools[name].attach(lane, consumer)
            if records:
                await spools[name].append(records)
        return directory

    async def receiver(self, *messages: Message, more: Sequence[bytes] = ()) -> Path:
        records = [NewRecord(one.destination, encode_message(one), one.received_at) for one in messages]
        records += [NewRecord(DESTINATION, payload, 1) for payload in more]
        return await self.spool("receiver", records)

    async def direct(self, *messages: Message, names: Sequence[str] = ("billing",), more: Sequence[bytes] = ()) -> Path:
        records = [NewRecord(DESTINATION, encode_message(one), one.received_at) for one in messages]
        records += [NewRecord(DESTINATION, payload, 1) for payload in more]
        return await self.spool("direct", records, attach=[(DESTINATION, name) for name in names])

    def published(self) -> list[str]:
        return [one.id for one in self.world.transport._messages]


@pytest.fixture(params=["journal", "apart"])
async def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Ground:
    monkeypatch.setattr("compensator.sweeper.spool_drain._STORED_WITHIN", 0.3)
    world = World()
    await world.destination()
    await world.subscription()
    await world.subscription("mail")
    return Ground(tmp_path, world, has_journal=request.param == "journal")


async def test_a_receivers_messages_are_published_and_stored(ground: Ground) -> None:
    sent = [message(number) for number in range(300)]
    directory = await ground.receiver(*sent)
    swept = await ground.drain.drain(directory)
    assert swept == (directory, 300, 0, True)
    assert ground.published() == [one.id for one in sent]
    assert await ground.store.trace(sent[-1].id) is not None
    assert not directory.exists()


@pytest.mark.parametrize("names", [["billing"], ["billing", "mail", "log"]])
async def test_what_only_removed_subscriptions_had_is_removed_however_much_it_is(
    ground: Ground, names: list[str]
) -> None:
    messages = (message(number) for number in range(50))
    directory = await ground.direct(*messages, names=names, more=[b"x"] * 4 * SWEEP)
    async with open_left(directory) as spools:
        for name in names:
            spools["direct"].detach(DESTINATION, name)
        await spools["direct"].settle()
        assert spools["direct"].totals().records > 0
    assert (await ground.drain.drain(directory)).removed
    assert not directory.exists()


async def test_messages_for_later_become_due_work(ground: Ground) -> None:
    later = message(1, deliver_at=ground.now() + 3_600_000)
    past = message(2, deliver_at=ground.now() - 1000)
    swept = await ground.drain.drain(await ground.receiver(later, past))
    assert swept.removed
    assert ground.published() == [past.id]
    assert await ground.store.due(0) == {(DESTINATION, ""): 1}
    assert (await ground.world.row(later, "")).due_at == later.deliver_at


async def test_messages_of_a_removed_destination_are_stored_and_not_published(ground: Ground) -> None:
    stray = message(1, destination="gone")
    directory = await ground.receiver(stray)
    assert not (await ground.drain.drain(directory)).removed  # it may have been lost
    await ground.world.registry.remove_destination("gone")
    swept = await ground.drain.drain(directory)
    assert swept.removed
    assert ground.published() == []
    assert await ground.store.trace(stray.id) is not None


async def test_what_cannot_be_read_stays_and_holds_up_nothing(ground: Ground) -> None:
    directory = await ground.receiver(message(1), more=[b"\xc1"] * 300)
    later = message(2)
    await ground.receiver(later)
    swept = await ground.drain.drain(directory)
    assert (swept.moved, swept.left, swept.removed) == (2, 300, False)
    assert ground.published() == [message(1).id, later.id]


async def test_what_no_transport_takes_stays(ground: Ground) -> None:
    ground.world.transport.refusing = True
    directory = await ground.receiver(message(1), message(2))
    swept = await ground.drain.drain(directory)
    assert (swept.moved, swept.left, swept.removed) == (0, 2, False)
    ground.world.transport.refusing = False
    assert (await ground.drain.drain(directory)).removed
    assert len(ground.published()) == 2


async def test_what_the_transport_has_no_room_for_stays_and_is_no_failed_publication(ground: Ground) -> None:
    async def full(batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        return [None] * len(batch)

    ground.world.transport.publish = full
    swept = await ground.drain.drain(await ground.receiver(message(1), message(2)))
    assert (swept.moved, swept.left, swept.removed) == (0, 2, False)
    assert ground.world.events.of(Stage.PUBLISHED) == []


async def test_outcomes_go_to_the_store_and_their_next_attempts_with_them(ground: Ground) -> None:
    sent = message(1)
    lane = unfinished_lane(DESTINATION, "billing")
    failed, done = outcome(sent, "billing", Status.RETRYING), outcome(sent, "mail", Status.DELIVERED)
    records = [NewRecord(lane, encode_outcome(failed), 1), NewRecord(DESTINATION, encode_outcome(done), 1)]
    directory = await ground.spool("outcomes", records, attach=[(lane, "retry")])
    swept = await ground.drain.drain(directory)
    assert swept == (directory, 2, 0, True)
    assert (await ground.world.delivery(sent, "mail")).status is Status.DELIVERED
    assert await ground.store.due(0) == {LANE: 1}


async def test_an_outcome_that_cannot_be_read_stays(ground: Ground) -> None:
    directory = await ground.spool("outcomes", [NewRecord(DESTINATION, b"\xc1", 1)])
    swept = await ground.drain.drain(directory)
    assert (swept.left, swept.removed) == (1, False)


async def test_what_waited_in_the_direct_queue_becomes_due_work_for_each_subscription(ground: Ground) -> None:
    sent = [message(1), message(2)]
    directory = await ground.direct(*sent, names=("billing", "mail"))
    swept = await ground.drain.drain(directory)
    assert swept == (directory, 2, 0, True)
    assert await ground.store.due(0) == {LANE: 2, (DESTINATION, "mail"): 2}
    row = await ground.world.row(sent[0])
    assert (row.message, row.by, row.generation, row.attempts) == (encode_message(sent[0]), Origin.TRANSPORT, 0, 0)
    assert row.due_at <= ground.now()


async def test_what_was_accepted_into_the_direct_queue_is_stored_as_well(ground: Ground) -> None:
    sent, lane = message(1), accepted_lane(DESTINATION)
    records = [NewRecord(lane, encode_message(sent), sent.received_at)]
    attached = [(lane, STORE), (lane, "billing"), (lane, "mail")]
    swept = await ground.drain.drain(await ground.spool("direct", records, attach=attached))
    assert swept.removed
    assert (await ground.store.trace(sent.id)) is not None
    assert await ground.store.due(0) == {LANE: 1, (DESTINATION, "mail"): 1}
    assert ground.counted == [sent]


async def test_what_cannot_be_read_stays_in_the_direct_queue(ground: Ground) -> None:
    swept = await ground.drain.drain(await ground.direct(message(1), more=[b"\xc1"]))
    assert (swept.moved, swept.left, swept.removed) == (1, 1, False)


@pytest.mark.parametrize("name", ["receiver", "outcomes", "direct"])
async def test_without_a_store_nothing_is_lost(ground: Ground, name: str) -> None:
    sent = message(1)
    directory = await {
        "receiver": lambda: ground.receiver(sent),
        "direct": lambda: ground.direct(sent),
        "outcomes": lambda: ground.spool(
            "outcomes", [NewRecord(DESTINATION, encode_outcome(outcome(sent, "mail", Status.DELIVERED)), 1)]
        ),
    }[name]()
    ground.store.down = True
    with pytest.raises(StoreError):
        await ground.drain.drain(directory)
    ground.store.down = False
    swept = await ground.drain.drain(directory)
    assert (swept.moved, swept.removed) == (1, True)


async def test_a_process_that_is_back_has_its_queue_to_itself(ground: Ground) -> None:
    directory = await ground.direct(message(1))
    async with open_left(directory) as spools:
        with pytest.raises(SpoolLocked):
            await ground.drain.drain(directory)
        assert spools["direct"].stats().records == 1


async def test_outcomes_are_swept_before_the_direct_queue(ground: Ground) -> None:
    """What was delivered must be known before what the queue has becomes due work."""
    assert QUEUES.index("outcomes") < QUEUES.index("direct")
    assert list(ground.drain._work) == ["outcomes", "direct", "receiver"]


async def test_a_broker_that_is_away_sends_them_straight_to_a_dispatcher(ground: Ground) -> None:
    broker = MemoryTransport("kafka")
    broker.refusing = True
    ground.world.router._transports["kafka"] = ground.world.router._publishers["kafka"] = broker
    await ground.world.registry.put_destination(
        Destination(code=DESTINATION, transport="kafka", version=ground.world.registry.destination(DESTINATION).version)
    )
    assert (await ground.drain.drain(await ground.receiver(message(1)))).removed
    assert ground.published() == [message(1).id]


async def ordered(ground: Ground, owner: str) -> None:
    """Have the destination keep an order, which a process keeps."""
    known = ground.world.registry.destination(DESTINATION)
    await ground.world.registry.put_destination(replace(known, ordering=Ordering.KEY))
    for task in Task:
        await ground.store.put(COLLECTION, f"{DESTINATION}/{task}", encode(Lead(owner, 1)))
    await ground.leaders.step()


async def test_what_kept_an_order_becomes_rows_in_that_order(ground: Ground) -> None:
    await ordered(ground, ground.dead())
    sent = [message(n, key="ab"[n % 2], expected=("billing",)) for n in range(8)]
    free = message(9, key="", expected=("billing",))
    known = outcome(message(20, key="a"), "billing", Status.RETRYING, order_key="a", place=40)
    await ground.store.write([known])
    lanes = [moved_lane(DESTINATION, "billing"), DESTINATION, accepted_lane(DESTINATION)]
    records = [NewRecord(lanes[n // 3], encode_message(one), one.received_at) for n, one in enumerate(sent)]
    records.append(NewRecord(DESTINATION, encode_message(free), free.received_at))
    directory = await ground.spool("direct", records, attach=[(lane, "billing") for lane in reversed(lanes)])
    assert (await ground.drain.drain(directory)).removed
    for key in "ab":
        rows = await ground.store.ordered_rows(*LANE, key, limit=99)
        wanted = [one.id for one in sent if one.key == key]
        assert [row.message_id for row in rows] == ([known.message_id] if key == "a" else []) + wanted
    assert (await ground.world.row(free)).place == 0
    trace = await ground.store.trace(sent[0].id)
    assert trace is not None
    assert trace.deliveries["billing"].reason == BEHIND


async def test_what_another_process_delivers_goes_there_in_order(ground: Ground) -> None:
    ground.dead()
    await ordered(ground, "somebody")
    sent = [message(n, key="a") for n in range(4)]
    directory = await ground.direct(*sent)
    ground.takes = 3
    assert (await ground.drain.drain(directory)).left == 1
    assert not (await ground.drain.drain(directory)).left
    assert ground.handed == [("billing", one.id) for one in sent]
    assert await ground.store.ordered_keys(*LANE) == []


async def test_what_a_receiver_had_for_an_order_that_it_delivered_becomes_rows(ground: Ground) -> None:
    await ordered(ground, ground.dead())
    sent = [message(n, key="a") for n in range(4)]
    assert (await ground.drain.drain(await ground.receiver(*sent))).removed
    assert ground.published() == []
    for name in ("billing", "mail"):
        rows = await ground.store.ordered_rows(DESTINATION, name, "a", limit=9)
        assert [row.message_id for row in rows] == [one.id for one in sent]


async def test_what_a_receiver_had_for_an_order_of_another_is_published(ground: Ground) -> None:
    ground.dead()
    await ordered(ground, "somebody")
    sent = [message(n, key="a") for n in range(4)]
    assert (await ground.drain.drain(await ground.receiver(*sent))).removed
    assert ground.published() == [one.id for one in sent]


async def test_places_are_read_again_for_each_process_that_is_gone(ground: Ground) -> None:
    """Between two of them another one has delivered, and has given places of its own."""
    await ordered(ground, ground.dead())
    early = message(1, key="a", expected=("billing",))
    assert (await ground.drain.drain(await ground.direct(early))).removed
    between = message(2, key="a", expected=("billing",))
    await ground.store.write([outcome(between, "billing", Status.RETRYING, order_key="a", place=500)])
    late = message(3, key="a", expected=("billing",))
    assert (await ground.drain.drain(await ground.direct(late))).removed
    rows = await ground.store.ordered_rows(*LANE, "a", limit=9)
    assert [row.message_id for row in rows] == [early.id, between.id, late.id]


async def test_what_was_published_goes_before_what_was_to_be(ground: Ground) -> None:
    await ordered(ground, ground.dead())
    sent = [message(n, key="a", expected=("billing",)) for n in range(4)]
    directories = dict.fromkeys([await ground.receiver(*sent[2:]), await ground.direct(*sent[:2])])
    for directory in [*directories] * 2:
        if directory.exists():
            await ground.drain.drain(directory)
    rows = await ground.store.ordered_rows(*LANE, "a", limit=9)
    assert [row.message_id for row in rows] == [one.id for one in sent]
