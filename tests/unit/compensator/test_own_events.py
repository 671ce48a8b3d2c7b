"""Events of the bus itself: one for each fact, kept until a receiver has it, and none about themselves."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.health.facts import Facts, OpenBreaker
from bus.domain.health.incidents import Incident, Watch
from bus.domain.health.vitals import BreakerFigures
from bus.domain.own_events import CODE, deaths, own_event
from bus.domain.subscription import PAUSED_BY_410, Subscription
from bus.errors import StoreUnavailable
from bus.stores.own_events import COLLECTION, KEPT, MOST, OwnEvents
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from bus.testing.writes import NOON, message, outcome
from compensator.alarms.own_events import Changes, OwnEventSender
from tests.unit.admin.incident_shapes import raised

LANE = ("orders", "shop")


def facts(*, paused: bool = False, opened: bool = False, at: int = NOON) -> Facts:
    reason = PAUSED_BY_410 if paused else ""
    shop = Subscription(destination="orders", name="shop", url="http://x", paused=paused, paused_reason=reason)
    breakers = [OpenBreaker("n1", *LANE, BreakerFigures("open", 1, 2))] if opened else []
    return Facts(("receiver",), at, subscriptions=[shop], breakers=breakers)


def test_what_changed_from_one_look_to_the_next_is_told() -> None:
    changes = Changes()
    assert changes.since(facts(paused=True, opened=True), Watch()) == []
    assert changes.since(facts(paused=True, opened=True), Watch()) == []
    found = changes.since(facts(), Watch())
    assert [(one.type, one.destination, one.subscription) for one in found] == [
        ("subscription.resumed", *LANE),
        ("breaker.closed", *LANE),
    ]
    paused, opened = changes.since(facts(paused=True, opened=True, at=NOON + 1), Watch())
    assert (paused.type, paused.data, paused.at) == (
        "subscription.paused",
        {"reason": PAUSED_BY_410},
        "2026-11-21T12:00:00.001Z",
    )
    assert opened.type == "breaker.opened"


def test_incidents_are_told_when_they_open_and_when_they_are_over() -> None:
    def watch(**changes: Any) -> Watch:
        incident = Incident(id="i1", cause="c", opened_at=NOON, alarms={"x": raised()}, **changes)
        return Watch(incidents={"i1": incident})

    changes = Changes()
    changes.since(facts(), Watch())
    (opened,) = changes.since(facts(), watch())
    assert (opened.type, opened.data["what"], opened.destination) == ("alarm.opened", "3 messages wait", "orders")
    assert changes.since(facts(), watch()) == []
    (over,) = changes.since(facts(), watch(closed_at=NOON + 5))
    assert (over.type, over.data["incident"], over.at) == ("alarm.over", "i1", "2026-11-21T12:00:00.005Z")
    assert changes.since(facts(), watch(closed_at=NOON + 5)) == []


def test_each_delivery_that_died_is_told_but_none_of_the_events_themselves() -> None:
    sent, own = message(1), message(2, destination=CODE)
    found = list(deaths([sent, outcome(sent, "mail", Status.DELIVERED), outcome(sent, "shop", Status.DEAD, reason="no"),
                         outcome(own, "shop", Status.DEAD)]))  # fmt: skip
    (one,) = found
    assert (one.type, one.subscription, one.data["message_id"], one.data["reason"]) == (
        "delivery.dead",
        "shop",
        sent.id,
        "no",
    )


def test_of_very_many_that_died_at_once_the_rest_is_counted() -> None:
    found = list(deaths([outcome(message(n), "shop" if n % 2 else "mail", Status.DEAD) for n in range(1000)]))
    assert [one.type for one in found].count("delivery.dead") == 200
    assert {one.subscription: one.data["count"] for one in found if one.type == "deliveries.dead"} == {
        "shop": 400,
        "mail": 400,
    }


class Store(MemoryStore):
    down = False

    async def put(self, collection, key, value, *, version=None):
        if self.down:
            raise StoreUnavailable("down")
        return await super().put(collection, key, value, version=version)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store()
        self.is_wanted = True
        self.kept = OwnEvents(self.store, lambda: self.is_wanted)
        self.urls = ["http://receiver"]
        self.lines: list[dict] = []
        self.headers: list[httpx.Headers] = []
        self.status = "accepted"
        self.http = 200

    def receiver(self, request: httpx.Request) -> httpx.Response:
        self.headers.append(request.headers)
        lines = [msgspec.json.decode(line) for line in request.content.splitlines()]
        if self.http == 200 and self.status != "rejected":
            self.lines += lines
        error = {"detail": "no"} if self.status == "rejected" else None
        results = [{"id": line["id"], "status": self.status, "error": error} for line in lines]
        return httpx.Response(self.http, json={"results": results})

    def sender(self, key: str = "") -> OwnEventSender:
        transport = httpx.MockTransport(self.receiver)
        return OwnEventSender(self.kept, lambda: self.urls, key, lambda: True, self.clock, transport)

    async def run(self, sender: OwnEventSender, seconds: int = 5) -> None:
        posting = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(posting)
        running = asyncio.create_task(sender.run())
        for _ in range(seconds):
            await asyncio.sleep(0.02)  # a thread posts
            await self.clock.advance(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        posting.shutdown()  # no post of this run is left

    async def left(self) -> int:
        return len(await self.store.list(COLLECTION))


@pytest.fixture
def world() -> World:
    return World()


async def test_kept_events_become_messages_of_the_destination(world: World) -> None:
    sent = message(1)
    await world.kept.keep_deaths([outcome(sent, "shop", Status.DEAD)])
    await world.kept.keep_deaths([outcome(sent, "shop", Status.DEAD)])
    assert await world.left() == 1
    await world.run(world.sender("secret"))
    (line,) = world.lines
    assert (line["destination"], line["source"], line["routing_key"]) == (CODE, "bus", "delivery.dead")
    assert (line["body"]["id"], line["body"]["data"]["message_id"]) == (line["id"], sent.id)
    assert world.headers[0]["authorization"] == "Bearer secret"
    assert await world.left() == 0


async def test_more_than_fit_in_one_request_go_in_several(world: World) -> None:
    await world.kept.keep([own_event("breaker.opened", str(n), NOON) for n in range(250)])
    await world.run(world.sender())
    assert len({line["id"] for line in world.lines}) == 250
    assert await world.left() == 0


@pytest.mark.parametrize("trouble", ["nobody", "status", "rejected"])
async def test_what_nobody_accepts_is_kept(world: World, trouble: str) -> None:
    await world.kept.keep([own_event("breaker.opened", "x", NOON)])
    urls, world.urls = world.urls, [] if trouble == "nobody" else world.urls
    world.http = 500 if trouble == "status" else 200
    world.status = "rejected" if trouble == "rejected" else "accepted"
    sender = world.sender()
    await world.run(sender)
    assert (world.lines, await world.left()) == ([], 1)
    world.urls, world.http, world.status = urls, 200, "duplicate"
    await world.run(sender)
    assert (len(world.lines), await world.left()) == (1, 0)


async def test_while_nobody_wants_them_none_are_kept(world: World) -> None:
    world.is_wanted = False
    await world.kept.keep_deaths([outcome(message(1), "shop", Status.DEAD)])
    assert await world.left() == 0


async def test_a_store_that_is_away_holds_up_nothing(world: World) -> None:
    world.store.down = True
    await world.kept.keep_deaths([outcome(message(1), "shop", Status.DEAD)])
    assert await world.left() == 0


async def test_rubbish_among_them_is_removed(world: World) -> None:
    await world.store.put(COLLECTION, "a", b"rubbish")
    await world.kept.keep([own_event("breaker.opened", "x", NOON)])
    await world.run(world.sender())
    assert (len(world.lines), await world.left()) == (1, 0)


async def test_they_are_bounded_and_too_old_ones_are_dropped(world: World) -> None:
    for first in range(0, 11_000, 500):
        await world.kept.keep([own_event("breaker.opened", str(n), NOON) for n in range(first, first + 500)])
    assert await world.left() == MOST
    world.clock.jump(KEPT + 1)
    await world.run(world.sender(), 120)
    assert (world.lines, await world.left()) == ([], 0)


async def test_they_are_told_in_the_order_in_which_they_happened(world: World) -> None:
    await world.kept.keep([own_event("breaker.opened", "x", NOON), own_event("breaker.closed", "x", NOON + 1)])
    await world.run(world.sender())
    assert [line["routing_key"] for line in world.lines] == ["breaker.opened", "breaker.closed"]


def test_what_happens_to_subscriptions_of_events_makes_none() -> None:
    changes = Changes()
    own = [OpenBreaker("n1", CODE, "tickets", BreakerFigures("open", 1, 2))]
    changes.since(facts(), Watch())
    assert changes.since(facts()._replace(breakers=own), Watch()) == []
