"""Hand-overs of other processes by HTTP, and their confirmation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import pytest

from bus.cluster.activity import ACTIVITY, Activity
from bus.cluster.lease import Promise, Question
from bus.cluster.member import Member
from bus.cluster.peers import DELIVERIES, MESSAGES, PROMISE, ROOM, WAITING, PeerKey
from bus.cluster.sampling import SAMPLE
from bus.domain.delivery.concurrency_shares import View
from bus.domain.delivery.delivery import Delivery, Status, encode_delivery
from bus.domain.destination import Destination
from bus.domain.health.vitals import RecentAttempt
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import SpoolFull, StoreUnavailable
from bus.ports.sampling import SampleResult
from bus.registry import Registry
from bus.security.secrets import SecretBox
from bus.testing.clock import ManualClock
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, message
from bus.transports.direct import DirectTransport
from bus.transports.router import TransportRouter
from dispatcher.handover_app import HandoverApp


class FickleStore(MemoryStore):
    """May be down; counts whole readings of the configuration."""

    down = False
    loads = 0

    async def get(self, collection: str, key: str) -> Any:
        if self.down:
            raise StoreUnavailable("down")
        return await super().get(collection, key)

    async def list(self, collection: str, **options: Any) -> Any:
        if self.down:
            raise StoreUnavailable("down")
        self.loads += collection == "subscriptions"
        return await super().list(collection, **options)


class FakeDispatching:
    is_local = True

    def __init__(self) -> None:
        self.offered: list[Delivery] = []
        self.has_permits = True

    def delivers(self, key: tuple[str, str]) -> bool:
        return self.has_permits and key == (DESTINATION, "billing")

    async def room(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        return dict.fromkeys(keys, 7)

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        self.offered += deliveries
        return [number % 2 == 0 for number in range(len(deliveries))]

    def activity(self, destination: str, subscription: str) -> Activity:
        return Activity(
            attempts=[RecentAttempt(f"{destination}/{subscription}", 1, 0, 1.0, 200, "", Status.DELIVERED, "n")]
        )

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        return SampleResult(url=f"{message.destination}/{subscription}", answer=message.body)


class World:
    """A dispatcher's app, and another process that changes the configuration."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = FickleStore()
        self.queue = MemorySpool(consumers=())
        self.direct = DirectTransport(self.queue)
        self.registry = Registry(self.store, SecretBox(None))
        self.registry.listen(TransportRouter([self.direct], self.clock).apply)
        self.elsewhere = Registry(self.store, SecretBox(None))
        self.key = PeerKey(self.store, self.clock)
        self.dispatching = FakeDispatching()
        self.leads: set[str] = set()
        self.app = HandoverApp(
            self.direct,
            self.dispatching,
            self.dispatching,
            self.registry,
            self.leads.__contains__,
            self.promise,
            self.key,
        )

    def promise(self, question: Question) -> Promise:
        return Promise(question.views == (View((question.asking.owner,)),), (View(("b",)),))

    async def subscribe(self, name: str) -> None:
        """Make a subscription in another process."""
        await self.elsewhere.put_subscription(Subscription(destination=DESTINATION, name=name, url="http://a.example/"))

    async def call(self, path: str, body: bytes, *, key: str | None = None, chunks: int = 1) -> tuple[int, Any]:
        """POST something; return the status and what the answer says."""
        size = max(1, -(-len(body) // chunks))
        parts = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(event: Any) -> None:
            sent.append(event)

        shown = self.key.header if key is None else key
        scope = {"type": "http", "path": path, "method": "POST", "headers": [(b"authorization", shown.encode())]}
        await self.app(scope, receive, send)
        status, content = sent[0]["status"], sent[1]["body"]
        return status, msgspec.msgpack.decode(content) if status == 200 else msgspec.json.decode(content)

    async def hand(self, *messages: Message) -> Any:
        status, answer = await self.call(MESSAGES, packed(*map(encode_message, messages)))
        assert status == 200, answer
        return answer

    def held(self) -> dict[str, int]:
        return {found.consumer: found.records for found in self.queue.stats().consumers if found.records}


def packed(*payloads: bytes) -> bytes:
    return msgspec.msgpack.encode(list(payloads))


def expecting(number: int, *names: str) -> Message:
    return message(number, expected=names)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.elsewhere.put_destination(Destination(code=DESTINATION))
    await world.subscribe("billing")
    await world.registry.load()
    await world.key.load()
    return world


async def test_messages_are_held_for_those_who_expect_them(world: World) -> None:
    assert await world.hand(expecting(1, "billing"), expecting(2, "billing")) == [True, True]
    assert world.held() == {"billing": 2}


async def test_who_has_no_secret_gets_nothing_and_is_not_read(world: World) -> None:
    status, answer = await world.call(MESSAGES, packed(encode_message(expecting(1, "billing"))), key="Bearer wrong")
    assert (status, answer["status"]) == (401, 401)
    assert world.held() == {}
    world.store.down = True
    await world.clock.advance(5)
    assert (await world.call(ROOM, b"", key="Bearer wrong"))[0] == 401


async def test_a_secret_of_a_store_that_was_wiped_is_read_again(world: World) -> None:
    await world.store.delete("settings", "peer-key")
    other = PeerKey(world.store, world.clock)
    await other.load()
    await world.clock.advance(2)
    assert (await world.call(ROOM, b"\xc0", key=other.header))[0] == 200


@pytest.mark.parametrize("body", [b"", b"\xc1", packed(b"\xc1"), msgspec.msgpack.encode({}), b"\x91\xa1x"])
@pytest.mark.parametrize("path", [MESSAGES, DELIVERIES])
async def test_rubbish_is_refused(world: World, path: str, body: bytes) -> None:
    assert (await world.call(path, body))[0] == 400
    assert world.held() == {}


async def test_too_much_at_once_is_refused_while_it_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.cluster.peer_app._LONGEST", 1000)
    assert (await world.call(MESSAGES, bytes(4000), chunks=8))[0] == 400


async def test_elsewhere_is_nothing(world: World) -> None:
    assert (await world.call("/internal/v1/other", b""))[0] == 404


async def test_a_subscription_that_is_not_known_here_yet_is_looked_up_first(world: World) -> None:
    await world.subscribe("mail")
    assert await world.hand(expecting(1, "billing", "mail")) == [True]
    assert world.held() == {"billing": 1, "mail": 1}


async def test_a_change_that_was_never_announced_is_found_as_well(world: World) -> None:
    """Its maker died between the change and its note."""
    revision = await world.store.get("settings", "revision")
    await world.subscribe("mail")
    world.store._documents["settings", "revision"] = revision
    assert await world.hand(expecting(1, "mail")) == [True]
    assert world.held() == {"billing": 1, "mail": 1}


async def test_without_a_store_what_is_for_somebody_unknown_is_not_confirmed(world: World) -> None:
    await world.subscribe("mail")
    world.store.down = True
    answer = await world.hand(expecting(1, "billing"), expecting(2, "mail"), expecting(3, "billing", "mail"))
    assert answer == [True, False, False]
    assert world.held() == {"billing": 1}


async def test_what_is_for_somebody_who_was_removed_is_confirmed_and_costs_one_look(world: World) -> None:
    assert await world.hand(expecting(1, "gone")) == [True]
    loads = world.store.loads
    for number in range(5):
        assert await world.hand(expecting(number, "gone"), expecting(number + 10, "billing")) == [True, True]
    assert world.store.loads == loads
    await world.subscribe("gone")
    await world.registry.refresh()
    before = world.held()["billing"]
    assert await world.hand(expecting(30, "gone")) == [True]
    assert world.held() == {"billing": before + 1, "gone": 1}


async def test_what_the_queue_does_not_take_is_not_confirmed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> list[int]:
        raise SpoolFull("full")

    monkeypatch.setattr(world.queue, "append", full)
    assert await world.hand(expecting(1, "billing")) == [None]


async def test_deliveries_and_room(world: World) -> None:
    deliveries = [Delivery(message(number), "billing") for number in range(3)]
    status, answer = await world.call(DELIVERIES, packed(*map(encode_delivery, deliveries)))
    assert (status, answer) == (200, [True, False, True])
    assert world.dispatching.offered == deliveries
    assert await world.call(ROOM, msgspec.msgpack.encode([(DESTINATION, "billing")])) == (
        200,
        [[DESTINATION, "billing", 7]],
    )
    assert await world.call(ROOM, b"\xc0") == (200, [[DESTINATION, "billing", 7]]), "an earlier version asks for all"
    assert (await world.call(ROOM, b"\xc1"))[0] == 400


async def test_a_sample_is_sent_and_what_came_of_it_returned(world: World) -> None:
    call = msgspec.msgpack.encode([encode_message(message(1)), "billing"])
    status, answer = await world.call(SAMPLE, call)
    assert status == 200
    assert (answer["url"], answer["answer"]) == (f"{DESTINATION}/billing", message(1).body)
    assert (await world.call(SAMPLE, b"\xc1"))[0] == 400
    assert (await world.call(SAMPLE, msgspec.msgpack.encode([b"x", "billing"])))[0] == 400
    assert (await world.call(SAMPLE, call, key="Bearer wrong"))[0] == 401


async def test_another_dispatcher_is_given_a_promise(world: World) -> None:
    asking = Member(owner="a", node="a", url="http://a", roles=("dispatcher",), version="1", started_at=0)
    call = msgspec.msgpack.encode(Question("b", asking, (View(("a",)),)))
    assert await world.call(PROMISE, call) == (200, [True, [{"owners": ["b"], "rotation": 0}]])
    assert await world.call(PROMISE, msgspec.msgpack.encode(Question("b", asking, ()))) == (
        200,
        [False, [{"owners": ["b"], "rotation": 0}]],
    )
    assert (await world.call(PROMISE, b"\xc1"))[0] == 400
    assert (await world.call(PROMISE, call, key="Bearer wrong"))[0] == 401


async def test_another_process_asks_what_is_done_for_a_subscription(world: World) -> None:
    call = msgspec.msgpack.encode([DESTINATION, "billing"])
    status, (permits, ((message_id, *_),)) = await world.call(ACTIVITY, call)
    assert (status, permits, message_id) == (200, None, f"{DESTINATION}/billing")
    assert (await world.call(ACTIVITY, b"\xc1"))[0] == 400
    assert (await world.call(ACTIVITY, call, key="Bearer wrong"))[0] == 401


async def test_what_waits_elsewhere_is_taken_for_one_subscription_while_it_has_permits(world: World) -> None:
    await world.subscribe("audit")
    await world.registry.refresh()
    payload = encode_message(expecting(1, "billing"))
    waiting = msgspec.msgpack.encode(("billing", [payload]))
    assert await world.call(WAITING, waiting) == (200, True)
    assert world.held() == {"billing": 1}
    (taken,) = await (await world.direct.consume(DESTINATION, "billing")).receive(9)
    assert taken.message == expecting(1, "billing")
    assert taken.suspect  # whoever handed it over may have crashed before its ack, and hand it over again
    world.dispatching.has_permits = False
    assert await world.call(WAITING, waiting) == (200, False)
    world.dispatching.has_permits = True
    assert await world.call(WAITING, msgspec.msgpack.encode(("audit", [payload]))) == (200, False)
    assert await world.call(WAITING, msgspec.msgpack.encode(("billing", []))) == (200, False)
    world.queue.full = True
    assert await world.call(WAITING, waiting) == (200, False)
    assert world.held() == {"billing": 1}


async def test_no_more_is_taken_than_a_few_batches_and_a_removed_subscription_leaves_none(world: World) -> None:
    waiting = msgspec.msgpack.encode(("billing", [encode_message(expecting(n, "billing")) for n in range(200)]))
    assert [await world.call(WAITING, waiting) for _ in range(3)] == [(200, True), (200, True), (200, False)]
    assert world.held() == {"billing": 400}
    await world.direct.remove(DESTINATION, "billing")
    assert world.held() == {}
