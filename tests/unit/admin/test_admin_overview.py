"""The overview: rates, backlog, breakers, spools, alarms; and its limits for a limited key."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from bus.bootstrap import RoleServices, introspect
from bus.cluster.member import COLLECTION, HeldMessages, Member
from bus.domain.delivery.delivery import Status
from bus.domain.health.alarm import Severity
from bus.domain.health.incidents import Incident, RaisedAlarm
from bus.domain.health.vitals import BreakerFigures, SpoolFigures
from bus.domain.times import format_time
from bus.localized_text import localized
from bus.ports.spool import NewRecord
from bus.ports.transport import Lag
from bus.testing.transport import MemoryTransport
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import URL, World, problem, subscribed


class Broker(MemoryTransport):
    """A broker that says what the test wants."""

    name = "kafka"
    figures: dict[tuple[str, str], Lag] | None = None

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        return self.figures


@pytest.fixture
async def world() -> World:
    return await subscribed()


def other(owner: str = "other", **fields: Any) -> Member:
    plain: dict[str, Any] = {"node": "node-2", "url": "http://127.0.0.1:2", "version": "1", "started_at": NOON}
    return Member(**{"owner": owner, "roles": ("receiver", "compensator"), **plain, **fields})


async def tell(world: World, *members: Member) -> None:
    """Have other processes tell of themselves, and this one look."""
    for member in members:
        await world.store.put(COLLECTION, member.owner, msgspec.json.encode(member))
    await world.context.members.step()


async def overview(world: World, key: str | None = None, **query: Any) -> dict[str, Any]:
    async with world.client(key) as client:
        answer = await client.get("/overview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_bus_that_is_well(world: World) -> None:
    await tell(world, other())
    found = await overview(world)
    assert found["alarms"] == found["degraded"] == found["breakers"] == []
    assert (found["backlog"], found["retrying"]) == (0, 0)
    assert found["now"] == {
        "from": "2026-11-21T12:00:00.000Z",
        "to": "2026-11-21T12:01:00.000Z",
        "accepted_per_second": 0.0,
        "delivered_per_second": 0.0,
        "attempts_per_second": 0.0,
        "success_rate": None,
        "p50_ms": None,
        "p99_ms": None,
    }
    assert [line["subscription"] for line in found["subscriptions"]] == ["billing", "mail"]
    assert {spool["name"] for spool in found["spools"]} == {"receiver", "direct", "outcomes"}
    assert [process["owner"] for process in found["processes"]] == ["owner-1", "other"]
    assert found["left_out"] == {"destinations": 0, "subscriptions": 0}


async def test_rates_are_those_of_the_last_minute_or_two(world: World) -> None:
    now = world.clock.now()
    sent = [message(number, expected=("billing",), received_at=now - 30_000) for number in range(60)]
    ended = [outcome(one, "billing", Status.DELIVERED, at=now - 1000, ready_at=now - 1100) for one in sent[:30]]
    world.context.rollups.count([*sent, *ended, outcome(sent[31], "billing", Status.RETRYING, at=now - 1000)])
    await world.context.rollups.flush()
    found = await overview(world)
    assert found["now"]["accepted_per_second"] == 1.0
    assert found["now"]["delivered_per_second"] == 0.5
    assert found["now"]["success_rate"] == round(30 / 31, 6)
    assert 70 <= found["now"]["p50_ms"] <= 150
    line = found["subscriptions"][0]
    assert (line["subscription"], line["delivered_per_second"]) == ("billing", 0.5)
    assert found["destinations"][0]["accepted_per_second"] == 1.0


async def test_the_backlog_is_that_of_all_dispatchers_and_brokers() -> None:
    broker = Broker()
    world = World(broker)
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        await client.put("/destinations/orders/subscriptions/billing", json={"url": URL})
    held = {"orders/billing": HeldMessages(9, NOON + 5, 4)}
    await tell(world, other("a", held=held, unpublished={"orders": NOON + 3}), other("b", held=held))
    broker.figures = {("orders", "billing"): Lag(100, NOON + 2)}
    direct = world.context.spools["direct"]
    direct.attach("orders", "billing")
    await direct.append([NewRecord("orders", b"x", NOON + 7)])
    found = await overview(world)
    assert found["backlog"] == 100 + 4 + 4 + 1
    assert found["subscriptions"][0]["oldest"] == "2026-11-21T12:00:00.002Z"
    assert found["destinations"][0]["unpublished_since"] == "2026-11-21T12:00:00.003Z"
    broker.figures = None
    await world.clock.advance(1)
    found = await overview(world)
    assert found["backlog"] is found["subscriptions"][0]["backlog"] is found["destinations"][0]["backlog"] is None


async def test_what_is_retried_waits_in_the_compensations(world: World) -> None:
    await world.written(3, Status.RETRYING)
    found = await overview(world)
    assert found["retrying"] == 3
    assert [(line["subscription"], line["retrying"]) for line in found["subscriptions"]] == [
        ("billing", 3),
        ("mail", 0),
    ]


async def test_a_trouble_of_another_process_can_be_said_in_another_language(world: World) -> None:
    said = localized("{name}: closed", name="rabbitmq-primary")
    await tell(world, other(troubles={"rabbitmq-primary": str(said)}, trouble_texts={"rabbitmq-primary": said}))
    (alarm,) = (await overview(world))["alarms"]
    assert alarm["what"] == "rabbitmq-primary is not well on node-2: rabbitmq-primary: closed"
    assert alarm["what_text"]["values"]["trouble"] == msgspec.to_builtins(said)
    async with world.client() as client:
        (its,) = [one for one in (await client.get("/processes")).json()["items"] if one["owner"] == "other"]
    (trouble,) = its["troubles"]
    assert trouble == {"name": "rabbitmq-primary", "detail": str(said), "detail_text": msgspec.to_builtins(said)}


async def test_breakers_and_spools_of_other_processes_are_told(world: World) -> None:
    breakers = {"orders/mail": BreakerFigures("open", NOON, NOON + 30_000, 422)}
    spools = {"receiver": SpoolFigures(5, 90, 100, 1, NOON)}
    await tell(world, other(breakers=breakers, open_breakers=1, spools=spools, troubles={"store": "away"}))
    found = await overview(world)
    assert found["breakers"] == [
        {
            "destination": "orders",
            "subscription": "mail",
            "node": "node-2",
            "state": "open",
            "since": "2026-11-21T12:00:00.000Z",
            "next_probe": "2026-11-21T12:00:30.000Z",
            "answered": 422,
        }
    ]
    assert found["spools"][-1] == {
        "owner": "other",
        "node": "node-2",
        "name": "receiver",
        "records": 5,
        "bytes": 90,
        "limit": 100,
        "used": 0.9,
        "is_nearly_full": True,
        "damaged": 1,
        "oldest": "2026-11-21T12:00:00.000Z",
    }
    assert found["degraded"] == [{"name": "store", "detail": "away", "owner": "other", "node": "node-2"}]
    assert [alarm["link"] for alarm in found["alarms"]] == [
        "processes/other",
        *("processes/other", "destinations/orders/subscriptions/mail", "processes/other"),
    ]
    assert [alarm["severity"] for alarm in found["alarms"]] == ["critical", "warning", "warning", "warning"]


async def test_orphans_are_told_though_other_processes_of_the_machine_see_none(world: World) -> None:
    await tell(world, other("a", orphans=3, roles=("sweeper",)), other("b", orphans=0))
    (alarm,) = (await overview(world))["alarms"]
    assert (alarm["link"], alarm["what"][:24]) == ("orphans", "3 local queues on node-2")


async def test_the_dead_of_the_last_hour_are_an_alarm_until_it_is_over(world: World) -> None:
    await tell(world, other())
    world.context.rollups.count([outcome(message(1), "billing", Status.DEAD, at=world.clock.now())])
    world.context.rollups.count([outcome(message(2), "removed", Status.DEAD, at=world.clock.now())])
    await world.context.rollups.flush()
    found = await overview(world)
    (alarm,) = found["alarms"]
    assert alarm["what"].startswith("1 deliveries to billing of orders died")
    assert (found["dead"], found["dead_before"]) == (1, 0)
    await world.clock.advance(71 * 60)
    await tell(world, other())
    found = await overview(world)
    assert (found["alarms"], found["dead"], found["dead_before"]) == ([], 0, 1)


async def test_since_when_an_alarm_lasts_is_known_after_a_restart(world: World) -> None:
    await tell(world, other())
    world.context.rollups.count([outcome(message(1), "billing", Status.DEAD, at=world.clock.now())])
    await world.context.rollups.flush()
    assert (await overview(world))["alarms"][0]["since"] is None
    said = {"what": localized("x"), "next_step": localized("y"), "link": ""}
    raised = RaisedAlarm(rule="dead", severity=Severity.WARNING, found_at=NOON, raised_at=NOON, **said)
    gone = msgspec.structs.replace(raised, found_at=1, raised_at=1, over_at=2)
    alarms = {"dead:orders/billing": raised, "dead:orders/mail": gone}
    await world.services.alarms.put_incident(Incident(id="i1", cause="c", opened_at=NOON, alarms=alarms))
    closed = Incident(id="i2", cause="c", opened_at=1, closed_at=2, alarms={"dead:orders/billing": gone})
    await world.services.alarms.put_incident(closed)
    world.restart()
    await world.registry.load()
    await tell(world, other())
    assert (await overview(world))["alarms"][0]["since"] == format_time(NOON)


async def test_while_the_store_is_away_the_rest_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> Any:
        world.store.down = True
        world.store._check()

    monkeypatch.setattr(world.store, "list", away)
    monkeypatch.setattr(world.store, "due", away)
    found = await overview(world)
    assert found["now"] is found["retrying"] is None
    assert found["backlog"] == 0
    assert found["subscriptions"][0]["accepted_per_second"] is None


async def test_those_with_the_most_waiting_come_first_and_the_rest_is_counted(world: World) -> None:
    await tell(world, other(held={"orders/mail": HeldMessages(5, NOON, 5)}))
    found = await overview(world, limit=1)
    assert [line["subscription"] for line in found["subscriptions"]] == ["mail"]
    assert found["left_out"] == {"destinations": 0, "subscriptions": 1}
    assert found["backlog"] == 5


async def test_a_key_of_some_destinations_sees_these_and_nothing_of_the_whole_bus(world: World) -> None:
    async with world.client() as client:
        await client.put("/destinations/mails", json={})
        await client.put("/destinations/mails/subscriptions/x", json={"url": URL})
    breakers = {lane: BreakerFigures("open", NOON, NOON) for lane in ("orders/mail", "mails/x")}
    held = {"orders/mail": HeldMessages(5, NOON, 5), "mails/x": HeldMessages(7, NOON, 7)}
    await tell(world, other(roles=("receiver",), breakers=breakers, held=held))
    world.context.rollups.count([message(1, destination="mails", received_at=world.clock.now())])
    await world.context.rollups.flush()
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    found = await overview(world, key)
    assert found["spools"] is found["processes"] is found["degraded"] is None
    assert [line["destination"] for line in found["destinations"]] == ["orders"]
    assert {line["destination"] for line in found["subscriptions"]} == {"orders"}
    assert [(one["destination"], one["subscription"]) for one in found["breakers"]] == [("orders", "mail")]
    assert [alarm["destination"] for alarm in found["alarms"]] == ["orders"]
    assert found["backlog"] == 5
    assert found["now"]["accepted_per_second"] == 0.0
    assert "mails" not in str(found)


async def test_many_who_ask_at_once_make_one_reading(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    due = world.store.due

    async def counted(now: int) -> Any:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return await due(now)

    monkeypatch.setattr(world.store, "due", counted)
    await asyncio.gather(*(overview(world) for _ in range(10)))
    assert asked == 1
    await world.clock.advance(1)
    await overview(world)
    assert asked == 2


@pytest.mark.parametrize("limit", [-1, 1001, "x"])
async def test_an_impossible_limit_is_refused(client: httpx.AsyncClient, limit: object) -> None:
    problem(await client.get("/overview", params={"limit": limit}), 422, "limit")


async def test_what_roles_offer_that_were_made_after_the_admin_is_seen() -> None:
    world = World()
    offers = world.introspection.offers | RoleServices(conditions={"alarms": lambda: "channel ops: it failed"})
    introspect(world.context, offers)
    async with world.client() as client:
        alarms = [one["what"] for one in (await client.get("/overview")).json()["alarms"]]
    assert "alarms is not well on node-1: channel ops: it failed" in alarms
