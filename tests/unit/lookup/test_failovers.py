"""A room that is declared lost, and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bus.domain.routing.evidence import ChannelSeen, PartSeen
from bus.security.audit_log import AuditQuery
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable
from tests.unit.lookup.migration_world import Proxy, World, topic, turn


class Answers:
    """The nsqlookupds of the clusters: which are there, and which topics all have."""

    def __init__(self, proxy: Proxy, names: Sequence[str]) -> None:
        self.names = list(names)
        for cluster in proxy.routing.clusters.values():
            self._give(cluster)

    def _give(self, cluster: Any) -> None:
        async def ask(target: str, _: str = "") -> list[LookupAnswer]:
            if cluster.name not in self.names:
                raise LookupUnavailable("nobody answers")
            return [LookupAnswer(200, b'{"topics": ["orders", "unknown"]}' if target == "/topics" else b"OK")]

        async def answers() -> bool:
            return cluster.name in self.names

        cluster.ask, cluster.answers = ask, answers


@pytest.fixture
async def proxy(tmp_path: Path) -> Proxy:
    made = World(tmp_path).proxy()
    await turn(made)
    return made


async def test_a_room_that_answers_is_not_lost_unless_forced(proxy: Proxy) -> None:
    there = Answers(proxy, "abc")
    refused = await proxy.call("POST", "/failovers", {"room": "a", "to": "b"})
    assert (refused.status_code, "a is not lost: a answers" in refused.json()["detail"]) == (409, True)
    assert (await proxy.call("POST", "/failovers", {"room": "a", "to": "b", "force": True})).status_code == 201
    await turn(proxy)
    assert proxy.route == (("b",), ("b", "a"))
    there.names.remove("a")
    again = await proxy.call("POST", "/failovers", {"room": "a", "to": "c"})
    assert (again.status_code, "--end" in again.json()["hint"]) == (409, True)


async def test_it_is_in_force_in_all_proxies_and_without_the_store(proxy: Proxy) -> None:
    Answers(proxy, "bc")
    other = proxy.world.proxy("p2")
    behind = {"x-forwarded-for": "198.51.100.7:50123"}
    assert (await proxy.call("POST", "/failovers", {"room": "a", "to": "b"}, **behind)).status_code == 201
    await turn(proxy, other)
    assert other.route == (("b",), ("b", "a"))
    assert proxy.world.proxy("p2", is_away=True).route == (("b",), ("b", "a"))
    entries = (await proxy.audit.read(AuditQuery(), after=None, limit=10)).entries
    assert [(one.resource, one.status, one.address) for one in entries] == [("lookup/failovers", 201, "198.51.100.7")]


async def test_a_store_that_was_wiped_gets_it_back(proxy: Proxy) -> None:
    Answers(proxy, "bc")
    await proxy.call("POST", "/failovers", {"room": "a", "to": "b"})
    await turn(proxy)
    for collection in ("lookup_migrations", "lookup_failovers"):
        for document in await proxy.world.store.list(collection):
            await proxy.world.store.delete(collection, document.key)
    await turn(proxy)
    assert proxy.route == (("b",), ("b", "a"))
    assert len(await proxy.world.store.list("lookup_failovers")) == 1


async def test_consumers_stay_until_all_is_consumed(proxy: Proxy) -> None:
    Answers(proxy, "abc")
    await proxy.call("POST", "/failovers", {"room": "a", "to": "b", "force": True})
    assert (await proxy.call("POST", "/failovers/a/end")).json()["phase"] == "returning"
    await turn(proxy)
    assert proxy.route == (("a",), ("a", "b"))
    part = PartSeen("b:1/0", channels=(ChannelSeen("billing", in_flight=2),))
    for seen, why in ((topic("b", parts=(part,)), "2 messages of orders wait"), (topic("b", unknown=("h:1",)), "h:1")):
        proxy.world.sights["b"] = seen
        refused = await proxy.call("POST", "/failovers/a/end", {})
        assert (refused.status_code, why in refused.json()["detail"]) == (409, True)
    proxy.world.sights["b"] = topic("b", "billing")
    assert (await proxy.call("POST", "/failovers/a/end")).json()["phase"] == "ended"
    await turn(proxy)
    assert proxy.route == (("a",), ("a",))
    assert [one["phase"] for one in (await proxy.call("GET", "/failovers")).json()["items"]] == ["ended"]


async def test_where_nobody_can_be_asked_it_ends_by_force_alone(proxy: Proxy) -> None:
    there = Answers(proxy, "b")
    await proxy.call("POST", "/failovers", {"room": "a", "to": "b"})
    await proxy.call("POST", "/failovers/a/end")
    there.names.clear()
    assert (await proxy.call("POST", "/failovers/a/end")).status_code == 409
    assert (await proxy.call("POST", "/failovers/a/end", {"force": True})).status_code == 200
    assert (await proxy.call("POST", "/failovers/a/end", {"force": True})).status_code == 409
    for room in ("x", "caf%C3%A9%252F1"):
        unknown = await proxy.call("POST", f"/failovers/{room}/end")
        assert unknown.status_code == 404
    assert "'caf\u00e9%2F1'" in unknown.json()["detail"]
    assert (await proxy.call("POST", "/failovers", {"room": "a", "to": "b"})).status_code == 201


@pytest.mark.parametrize(
    ("body", "status"), [({"room": "nowhere"}, 404), ({"room": "a"}, 422), ({"room": "a", "to": "a"}, 422), ({}, 422)]
)
async def test_what_cannot_be_meant_is_refused(proxy: Proxy, body: Any, status: int) -> None:
    Answers(proxy, "bc")
    assert (await proxy.call("POST", "/failovers", body)).status_code == status
