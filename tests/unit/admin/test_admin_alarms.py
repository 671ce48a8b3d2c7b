"""Incidents, silences, rules and trials of channels, through the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from bus.cluster.alarm_documents import MOST_SILENCES
from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel, Silence
from bus.domain.health.incidents import Notification
from bus.localized_text import AnyText, localized
from bus.testing.writes import NOON
from compensator.alarms.texts import Text
from compensator.alarms.trials import Trials
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.incident_shapes import put, raised


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


async def test_incidents_are_listed_with_what_to_do_and_the_open_ones_first(
    world: World, client: httpx.AsyncClient
) -> None:
    await put(world, "old", closed_at=NOON - 1000)
    told = {"ops": Notification(NOON - 4000, Severity.WARNING)}
    await put(world, "new", raised(), raised(None, Severity.CRITICAL), told=told, owed={"mail": NOON}, left_out=2)
    answer = (await client.get("/alarms")).json()
    assert [(one["id"], one["state"]) for one in answer["items"]] == [("new", "open"), ("old", "closed")]
    assert answer["watched"] is False
    first = answer["items"][0]
    assert (first["severity"], first["left_out"], first["cause"]) == ("critical", 2, "c")
    assert first["alarms"][1] == {
        "rule": "backlog",
        "severity": "warning",
        "what": "3 messages wait",
        "what_text": {"template": "{count} messages wait", "values": {"count": 3}},
        "next_step": "look",
        "next_step_text": {"template": "look", "values": {}},
        "link": "destinations/orders",
        "destination": "orders",
        "subscription": "shop",
        "owner": "",
        "found_at": "2026-11-21T11:59:51.000Z",
        "over_at": None,
        "cures": [],
    }
    assert first["told"] == [
        {"channel": "ops", "at": "2026-11-21T11:59:56.000Z", "is_over": False},
        {"channel": "mail", "at": None, "is_over": False},
    ]
    assert [one["id"] for one in (await client.get("/alarms?closed=false")).json()["items"]] == ["new"]
    assert len((await client.get("/alarms?limit=1")).json()["items"]) == 1
    assert (await client.get("/alarms/old")).json()["closed_at"] == "2026-11-21T11:59:59.000Z"
    problem(await client.get("/alarms/none"), 404)


async def test_one_is_taken_on_with_a_word_for_the_others(world: World, client: httpx.AsyncClient) -> None:
    await put(world, "one")
    answer = (await client.post("/alarms/one/acknowledge", json={"note": "on it"})).json()
    assert answer["state"] == "acknowledged"
    assert answer["acknowledged"] == {"by": "anyone", "at": "2026-11-21T12:00:00.000Z", "note": "on it"}
    assert (await client.post("/alarms/one/acknowledge")).json()["acknowledged"]["note"] == ""
    problem(await client.post("/alarms/none/acknowledge"), 404)
    problem(await client.post("/alarms/one/acknowledge", json={"note": "x" * 501}), 422, "note")


@pytest.mark.parametrize("wanted", [{"destination": "ord*"}, {"cause": "c"}])
async def test_a_silence_is_made_listed_seen_and_ended(
    world: World, client: httpx.AsyncClient, wanted: dict[str, str]
) -> None:
    await put(world, "one")
    made = await client.post("/alarm-silences", json={**wanted, "for": "2h", "note": "upgrade"})
    assert made.status_code == 201
    silence = made.json()
    assert silence["until"] == "2026-11-21T14:00:00.000Z"
    assert (await client.get("/alarm-silences")).json()["items"] == [silence]
    assert (await client.get("/alarms/one")).json()["state"] == "silenced"
    assert (await client.delete(f"/alarm-silences/{silence['id']}")).status_code == 204
    assert (await client.get("/alarms/one")).json()["state"] == "open"
    problem(await client.delete(f"/alarm-silences/{silence['id']}"), 404)


async def test_a_silence_that_is_over_is_not_listed(world: World, client: httpx.AsyncClient) -> None:
    await client.post("/alarm-silences", json={"rule": "dead", "for": "1m"})
    await world.clock.advance(61)
    assert (await client.get("/alarm-silences")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "rule"),
        ({"rule": "*"}, "rule"),
        ({"rule": "x", "for": "31d"}, "for"),
        ({"rule": "x", "for": "soon"}, "for"),
        ({"what": 1}, "what"),
    ],
)
async def test_a_silence_that_cannot_be_meant(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    problem(await client.post("/alarm-silences", json=body), 422, field)


async def test_silences_are_bounded(world: World, client: httpx.AsyncClient) -> None:
    for number in range(MOST_SILENCES):
        await world.services.alarms.silence(Silence(id=str(number), until=NOON + 1000, by="x", at=0, rule="dead"))
    problem(await client.post("/alarm-silences", json={"rule": "dead"}), 422)
    await world.clock.advance(2)
    assert (await client.post("/alarm-silences", json={"rule": "dead"})).status_code == 201


async def test_who_is_limited_to_a_destination_sees_what_concerns_it(world: World) -> None:
    await put(world, "mine", raised("orders"), raised("mail"), raised(None))
    await put(world, "others", raised("mail"))
    made = await world.context.keyring.create_key(roles=("viewer",), destinations=("orders",))
    await world.context.keyring.create_key(roles=("admin",))
    async with world.client(made) as client:
        (found,) = (await client.get("/alarms")).json()["items"]
        assert [one["destination"] for one in found["alarms"]] == ["orders"]
        problem(await client.get("/alarms/others"), 404)


async def test_the_rules_in_force_are_told(client: httpx.AsyncClient) -> None:
    found = {one["name"]: one for one in (await client.get("/alarm-rules")).json()["items"]}
    assert (found["backlog"]["limit"], found["backlog"]["hold"], found["age"]["limit"]) == (10_000.0, "5m", "15m")
    assert (found["latency"]["limit"], found["latency"]["off"]) == (None, False)


async def test_channels_are_tried_by_the_process_that_watches(world: World, client: httpx.AsyncClient) -> None:
    problem(await client.post("/alarm-trials"), 409)
    watching(world)
    asking = asyncio.create_task(client.post("/alarm-trials", json={"channel": "ops"}))
    phone = Phone()
    trials = Trials(world.services.alarms, [Channel("ops", "json://ops")], phone, lambda: True, world.clock, "")
    trying = asyncio.create_task(trials.run())
    while not asking.done():
        await world.clock.advance(1)
        await asyncio.sleep(0.001)
    trying.cancel()
    assert phone.told == ["anyone has it tried: alarms come this way."]
    assert (await asking).json()["results"] == {"ops": "it is deaf"}


class Phone:
    """A channel that takes nothing."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, _: Channel, text: Text, __: object) -> AnyText:
        self.told.append(text.body)
        return localized("it is deaf")


def watching(world: World) -> None:
    members = world.context.members
    members._me = msgspec.structs.replace(members.me, roles=("alarms",))


async def test_while_the_store_is_away_alarms_are_a_503(world: World, client: httpx.AsyncClient) -> None:
    world.store.down = True
    problem(await client.post("/alarm-silences", json={"rule": "dead"}), 503)
