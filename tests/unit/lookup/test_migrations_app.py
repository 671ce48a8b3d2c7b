"""``/api/v1/lookup``: what people ask of migrations, and what they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.security.audit_log import AuditQuery
from tests.unit.lookup.migration_world import META, Proxy, World, topic, turn

ASKED = {"topic": "orders", "to": "b"}


@pytest.fixture
async def proxy(tmp_path: Path) -> Proxy:
    made = World(tmp_path).proxy()
    await turn(made)
    return made


async def test_a_plan_begins_nothing(proxy: Proxy) -> None:
    proxy.world.sights["b"] = topic("b", exists=False, partitions=0, parts=())
    plan = (await proxy.call("POST", "/migrations", {**ASKED, "dry_run": True})).json()
    assert [one["step"] for one in plan["steps"]] == ["prepare", "producers-stopped", "draining-source", "done"]
    assert (plan["kind"], plan["partitions"], plan["interval"]) == ("ordered", 2, 90)
    assert plan["missing"] == ["b has no topic orders"]
    assert len(plan["makes"]) == 1
    assert (await proxy.call("GET", "/migrations")).json() == {"items": [], "next": None}


async def test_a_topic_in_two_migrations_is_refused_and_the_service_goes_on(proxy: Proxy) -> None:
    await proxy.start()
    second = await proxy.call("POST", "/migrations", {**ASKED, "to": "c"})
    assert second.status_code == 409
    assert "orders is in the migration orders-1 to b already" in second.json()["detail"]
    assert "bus lookup status orders-1" in second.json()["hint"]
    assert [one["id"] for one in (await proxy.call("GET", "/migrations")).json()["items"]] == ["orders-1"]


async def test_of_two_that_begin_at_once_one_does(proxy: Proxy) -> None:
    other = proxy.world.proxy("p2")
    await proxy.start()
    assert (await other.call("POST", "/migrations", ASKED)).status_code == 409
    await turn(other)
    assert (await other.call("POST", "/migrations/orders-1/rollback", {})).json()["step"] == "canceled"
    late = await proxy.call("POST", "/migrations/orders-1/rollback", {})
    assert (late.status_code, "changed meanwhile" in late.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        ({}, 422, "body"),
        ({**ASKED, "colour": 1}, 422, "body"),
        ({**ASKED, "kind": "sideways"}, 422, "body"),
        ({**ASKED, "to": "nowhere"}, 422, "to"),
        ({**ASKED, "to": "a"}, 422, "to"),
        ({**ASKED, "topic": "unknown"}, 422, "topic"),
        ({**ASKED, "kind": "unordered"}, 422, "kind"),
        ({**ASKED, "kind": "expansion"}, 422, "partitions"),
        ({**ASKED, "kind": "expansion", "partitions": 2}, 422, "partitions"),
        ({**ASKED, "kind": "expansion", "partitions": 256}, 422, "partitions"),
        ({**ASKED, "partitions": 3}, 422, "partitions"),
        ({**ASKED, "interval": 0}, 422, "interval"),
    ],
)
async def test_what_cannot_be_meant_is_refused(proxy: Proxy, body: Any, status: int, field: str | None) -> None:
    answer = await proxy.call("POST", "/migrations", body)
    assert (answer.status_code, answer.json().get("field")) == (status, field)
    assert answer.json()["detail"]
    assert proxy.migrations.all == []


async def test_what_the_source_does_not_have_or_tell_is_not_moved(proxy: Proxy) -> None:
    sights = proxy.world.sights
    sights["a"] = msgspec.structs.replace(sights["a"], exists=False)
    answer = await proxy.call("POST", "/migrations", ASKED)
    assert (answer.status_code, answer.json()["field"]) == (422, "topic")
    sights["a"] = topic("a", "billing", unknown=("h:1 does not answer",))
    answer = await proxy.call("POST", "/migrations", ASKED)
    assert (answer.status_code, "h:1 does not answer" in answer.json()["detail"]) == (503, True)
    sights["a"] = topic("a", "billing", meta=None, partitions=0)
    answer = await proxy.call("POST", "/migrations", {**ASKED, "kind": "expansion", "partitions": 4})
    assert (answer.status_code, answer.json()["field"]) == (422, "kind")


STOCK: dict[str, Any] = {"meta": None, "partitions": 0}


async def test_a_topic_of_stock_nsq_moves_to_the_fork_with_partitions(proxy: Proxy) -> None:
    proxy.world.sights["a"] = topic("a", "billing", **STOCK)
    plan = (await proxy.call("POST", "/migrations", {**ASKED, "dry_run": True})).json()
    assert (plan["kind"], plan["partitions"]) == ("unordered", 2)
    plan = (await proxy.call("POST", "/migrations", {**ASKED, "partitions": 3, "dry_run": True})).json()
    assert plan["partitions"] == 3
    for partitions in (1, 256):
        answer = await proxy.call("POST", "/migrations", {**ASKED, "partitions": partitions})
        assert (answer.status_code, answer.json()["field"]) == (422, "partitions")
    proxy.world.sights["b"] = topic("b", exists=False, partitions=0, parts=())
    plan = (await proxy.call("POST", "/migrations", {**ASKED, "partitions": 1, "dry_run": True})).json()
    assert plan["partitions"] == 1


async def test_a_cluster_whose_kind_is_not_known_is_no_target(proxy: Proxy) -> None:
    proxy.world.sights["b"] = msgspec.structs.replace(topic("b", exists=False), is_fork=None)
    answer = await proxy.call("POST", "/migrations", ASKED)
    assert (answer.status_code, "no response from b" in answer.json()["detail"]) == (503, True)


async def test_a_topic_of_the_fork_moves_to_stock_nsq_unless_it_is_ordered(proxy: Proxy) -> None:
    proxy.world.sights["b"] = topic("b", "billing", **STOCK)
    answer = await proxy.call("POST", "/migrations", ASKED)
    assert (answer.status_code, answer.json()["field"]) == (422, "to")
    proxy.world.sights["a"] = topic("a", "billing", meta={**META, "ordered": False})
    plan = (await proxy.call("POST", "/migrations", {**ASKED, "dry_run": True})).json()
    assert (plan["kind"], plan["partitions"]) == ("unordered", None)


async def test_a_step_is_taken_by_hand_once(proxy: Proxy) -> None:
    await proxy.start()
    assert (await proxy.call("POST", "/migrations/orders-1/advance", {"steps": 1})).status_code == 422
    after = (await proxy.call("POST", "/migrations/orders-1/advance", {"step": "prepare"})).json()
    assert (after["step"], after["producers_stopped"]) == ("producers-stopped", True)
    assert after["history"][-1]["by"] == "anyone"
    again = await proxy.call("POST", "/migrations/orders-1/advance", {"step": "prepare"})
    assert (again.status_code, "not at 'prepare'" in again.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/migrations/orders-9", 404),
        ("POST", "/migrations/orders-9/pause", 404),
        ("GET", "/nothing", 404),
        ("POST", "/nothing", 404),
        ("DELETE", "/migrations", 405),
        ("POST", "/migrations/orders-1/pause?x", 422),
    ],
)
async def test_other_requests_are_refused(proxy: Proxy, method: str, path: str, status: int) -> None:
    await proxy.start()
    body = {"unknown": 1} if path.endswith("?x") else None
    assert (await proxy.call(method, path, body)).status_code == status


async def test_who_may_look_and_who_may_change(proxy: Proxy) -> None:
    viewer = {"authorization": f"Bearer {await proxy.keyring.create_key(roles=('viewer',))}"}
    operator = {"authorization": f"Bearer {await proxy.keyring.create_key(roles=('operator',))}"}
    assert (await proxy.call("GET", "/migrations")).status_code == 401
    assert (await proxy.call("GET", "/migrations", **viewer)).status_code == 200
    assert (await proxy.call("POST", "/migrations", ASKED, **viewer)).status_code == 403
    assert (await proxy.call("POST", "/migrations", ASKED, **operator)).status_code == 201
    entries = (await proxy.audit.read(AuditQuery(), after=None, limit=10)).entries
    assert [(one.method, one.resource, one.status) for one in entries] == [
        ("POST", "lookup/migrations", 201),
        ("POST", "lookup/migrations", 403),
    ]
    assert entries[0].changes["to"].after == "b"


async def test_a_page_of_another_site_changes_nothing(proxy: Proxy) -> None:
    answer = await proxy.call("POST", "/migrations", ASKED, origin="http://evil.example")
    assert answer.status_code == 403
    assert (await proxy.call("POST", "/migrations", ASKED, sec_fetch_site="same-origin")).status_code == 201


async def test_without_the_store_nothing_begins(proxy: Proxy) -> None:
    proxy.documents.is_away = True
    assert (await proxy.call("POST", "/migrations", ASKED)).status_code == 503
    assert (await proxy.call("GET", "/migrations")).status_code == 200
