"""Each process as it says itself; one that does not answer is shown as such; what waits, and whose owner is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest

from bus.cluster.member import COLLECTION, Member
from bus.cluster.peers import PeerKey
from bus.cluster.report import REPORT
from bus.domain.health.vitals import BreakerFigures, Orphan, WorkerFigures
from bus.ports.poster import Phases, PostFailure, PostResult
from bus.ports.spool import NewRecord
from bus.posters.http import HttpPoster
from bus.security.egress import EgressPolicy
from bus.serving import Gateway
from bus.testing.writes import NOON, message, row
from tests.unit.admin.admin_world import World, problem, subscribed

Asgi = Callable[..., Any]
HOSTS = {"other": "127.0.0.1:8001", "mute": "127.0.0.1:8002"}


class Network:
    """Where other processes are reached, by host."""

    def __init__(self) -> None:
        self.hosts: dict[str, Asgi] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        host = dict(scope["headers"])[b"host"].decode()
        if host not in self.hosts:
            raise httpx.ConnectError("nobody listens")
        await self.hosts[host](scope, receive, send)


class AsgiPoster(HttpPoster):
    """Posts to applications."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        super().__init__(EgressPolicy(allow_loopback=True))
        self._client = client

    async def post(
        self,
        target: Any,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - the port's name
    ) -> PostResult:
        head = target.shown(headers, b"")
        no_phases = Phases(None, None, None, None, None, None)
        try:
            async with asyncio.timeout(timeout):
                found = await self._client.post(target.url, headers=head, content=body)
        except (TimeoutError, httpx.ConnectError) as error:
            return PostResult(None, PostFailure.CONNECT, repr(error), False, 0.0, no_phases, None, b"")
        return PostResult(found.status_code, None, "", False, 0.0, no_phases, None, found.content)


async def hangs(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def world() -> World:
    return await subscribed()


@pytest.fixture
async def network(world: World) -> AsyncIterator[Network]:
    """Have what this process asks of others go to applications of the test."""
    made = Network()
    await world.context.peer_key.load()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made)) as client:
        world.context.peers._poster = AsgiPoster(client)
        yield made


async def join(world: World, *roles: str, owner: str = "other") -> World:
    """Return another process of the same bus, which this one has heard of."""
    other = World()
    other.store = world.store
    other.restart()
    me = Member(owner=owner, node="node-2", url=f"http://{HOSTS[owner]}", roles=roles, version="2", started_at=NOON)
    other.context.members._me = me
    await other.context.peer_key.load()
    await other.registry.load()
    await world.store.put(COLLECTION, owner, msgspec.json.encode(other.introspection.described()))
    await world.context.members.step()
    return other


async def get(world: World, path: str, **query: Any) -> Any:
    async with world.client() as client:
        answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_process_tells_of_itself(world: World, network: Network) -> None:
    other = await join(world, "receiver", "dispatcher")
    other.offer(
        workers=lambda: [
            WorkerFigures("orders", "billing", 3, 8, 16, 5),
            WorkerFigures("orders", "mail", 1, 8, 16, 0),
        ]
    )
    await other.context.spools["receiver"].append([NewRecord("orders", b"x", NOON + 7)])
    network.hosts[HOSTS["other"]] = Gateway(other.context, other.introspection)
    found = await get(world, "/processes")
    assert [item["owner"] for item in found["items"]] == ["owner-1", "other"]
    own, its = found["items"]
    assert own["answers"] is True
    assert own["seen_seconds_ago"] == 0.0
    assert its["permits"] == {"in_use": 4, "share": 16, "subscriptions": 2}
    assert (its["roles"], its["version"], its["node"], its["url"]) == (
        ["receiver", "dispatcher"],
        "2",
        "node-2",
        "http://127.0.0.1:8001",
    )
    assert (its["answers"], its["trouble"], its["is_current"]) == (True, "", True)
    assert its["started_at"] == "2026-11-21T12:00:00.000Z"
    receiver = next(spool for spool in its["spools"] if spool["name"] == "receiver")
    assert (receiver["records"], receiver["oldest"]) == (1, "2026-11-21T12:00:00.007Z")


async def test_one_that_does_not_answer_is_shown_with_what_it_told_last(
    world: World, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.cluster.report._PATIENCE", 0.1)
    await join(world, "dispatcher")
    for host, reason in ((None, "does not answer"), (hangs, "does not answer within 0.1 s")):
        if host is not None:
            network.hosts[HOSTS["other"]] = host
        _, its = (await get(world, "/processes"))["items"]
        assert its["answers"] is False
        assert reason in its["trouble"]
        assert its["permits"] is None
        assert {spool["name"] for spool in its["spools"]} == {"receiver", "direct", "outcomes"}
        details = await get(world, "/processes/other")
        assert [details[name] for name in ("couriers", "lanes", "breakers", "orphans")] == [None] * 4


async def test_one_of_another_version_is_shown_as_such(world: World, network: Network) -> None:
    await join(world, "dispatcher")

    async def babble(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"\xc1"})

    network.hosts[HOSTS["other"]] = babble
    _, its = (await get(world, "/processes"))["items"]
    assert (its["answers"], "of another version" in its["trouble"]) == (False, True)


async def test_a_process_behind_the_configuration_is_not_current(world: World, network: Network) -> None:
    other = await join(world, "receiver")
    network.hosts[HOSTS["other"]] = Gateway(other.context, other.introspection)
    await world.registry.put_destination(world.registry.destination("orders"))
    found = await get(world, "/processes")
    assert [item["is_current"] for item in found["items"]] == [True, False]
    assert found["items"][1]["revision"] < found["revision"]


async def test_seen_is_how_long_ago_it_told_of_itself(world: World, network: Network) -> None:
    await join(world, "receiver")
    await world.clock.advance(3)
    _, its = (await get(world, "/processes"))["items"]
    assert its["seen_seconds_ago"] == 3.0


async def test_one_process_with_all_that_it_tells(world: World) -> None:
    world.offer(
        workers=lambda: [WorkerFigures("orders", name, n, 8, 16, 0) for n, name in enumerate("abc")],
        breakers=lambda: {"orders/a": BreakerFigures("open", NOON, NOON + 1000)},
        orphans=lambda: [Orphan("/data/x", "producer", 3, 100, NOON, "no receiver")],
        swept=("/data",),
    )
    await world.spools["outcomes"].append([NewRecord("orders", b"x", NOON)])
    found = await get(world, "/processes/owner-1")
    assert [worker["subscription"] for worker in found["couriers"]] == ["c", "b", "a"]
    assert found["couriers"][0] == {
        "destination": "orders",
        "subscription": "c",
        "in_use": 2,
        "share": 8,
        "max_concurrency": 16,
        "waiting": 0,
    }
    assert found["lanes"] == [
        {
            "spool": "outcomes",
            "lane": "orders",
            "consumer": "store",
            "records": 1,
            "oldest": "2026-11-21T12:00:00.000Z",
        }
    ]
    assert found["breakers"][0]["subscription"] == "a"
    assert found["orphans"][0]["trouble"] == "no receiver"
    assert found["watched"] == ["/data"]
    found = await get(world, "/processes/owner-1", limit=1)
    assert found["left_out"] == {"couriers": 2, "lanes": 0, "breakers": 0, "orphans": 0}


async def test_a_process_that_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    problem(await client.get("/processes/nobody"), 404)


async def test_a_pulse_names_some_breakers_and_counts_all(world: World) -> None:
    found = {f"orders/{n}": BreakerFigures("open", NOON + n, NOON) for n in range(150)}
    world.offer(breakers=lambda: found)
    me = world.introspection.described()
    assert me.open_breakers == 150
    assert sorted(one.since for one in me.breakers.values()) == [NOON + n for n in range(100)]
    assert len((await world.introspection.report()).breakers) == 150


async def test_a_report_is_for_processes_of_the_same_bus(world: World) -> None:
    key = PeerKey(world.store, world.clock)
    await key.load()
    await world.context.peer_key.load()
    transport = httpx.ASGITransport(Gateway(world.context, world.introspection))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
        problem(await asking.post(REPORT), 401)
        problem(await asking.post(REPORT, headers={"authorization": "Bearer wrong"}), 401)
        assert (await asking.post(REPORT, headers={"authorization": key.header})).status_code == 200


async def test_compensations_are_told_by_subscription(world: World) -> None:
    now = world.clock.now()
    await world.store.compensate([row(message(n), due_at=now + 10 * n) for n in range(3)])
    await world.store.compensate([row(message(9), "", due_at=now + 60_000)])
    found = await get(world, "/compensations")
    assert found == {
        "totals": {"waiting": 4, "due": 1},
        "items": [
            {
                "destination": "orders",
                "subscription": "billing",
                "waiting": 3,
                "due": 1,
                "next_due": "2026-11-21T12:01:00.000Z",
            },
            {
                "destination": "orders",
                "subscription": None,
                "waiting": 1,
                "due": 0,
                "next_due": "2026-11-21T12:02:00.000Z",
            },
        ],
        "next": None,
    }
    assert (await get(world, "/compensations", destination="mails"))["items"] == []
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=("viewer",), destinations=("mails",))
    async with world.client(key) as limited:
        assert (await limited.get("/compensations")).json()["items"] == []
        problem(await limited.get("/compensations", params={"destination": "orders"}), 403)
        for path in ("/processes", "/processes/owner-1", "/orphans"):
            problem(await limited.get(path), 403)


async def test_orphans_are_those_that_sweepers_see(world: World, network: Network) -> None:
    assert await get(world, "/orphans") == {"watched": [], "items": [], "next": None}
    other = await join(world, "sweeper")
    other.offer(swept=("/data",))
    other.offer(orphans=lambda: [Orphan("/data/shop-1-00000000.sdk", "producer", None, 4096, NOON, "")])
    network.hosts[HOSTS["other"]] = Gateway(other.context, other.introspection)
    await join(world, "sweeper", owner="mute")
    found = await get(world, "/orphans")
    assert {(one["owner"], one["answers"]): one["directories"] for one in found["watched"]} == {
        ("other", True): ["/data"],
        ("mute", False): [],
    }
    assert found["items"] == [
        {
            "owner": "other",
            "node": "node-2",
            "directory": "/data/shop-1-00000000.sdk",
            "kind": "producer",
            "records": None,
            "bytes": 4096,
            "touched_at": "2026-11-21T12:00:00.000Z",
            "trouble": "",
        }
    ]
