"""Producers as all receivers and sweepers know them, through the API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admin.showing.producers import producers_view
from bus.cluster.member import Member
from bus.cluster.report import Answer, Report
from bus.domain.health.vitals import USED_KEY_RATE, ProducerFigures, RejectedFigures, TurnedAwayFigures
from bus.localized_text import localized
from bus.testing.writes import NOON
from tests.unit.admin.admin_world import World, problem

PYTHON = "pier-python/0.1.0 (host web-1; python 3.12.1)"


def member(node: str, **changes: Any) -> Member:
    fields = {"owner": node, "node": node, "url": "http://x", "roles": ("receiver",), "version": "1", "started_at": 1}
    return Member(**{**fields, **changes})


def told(node: str, *producers: ProducerFigures, **changes: Any) -> Answer:
    found = member(node, **changes)
    return Answer(found, 0.0, Report(member=found, producers=list(producers)), "")


def heard(source: str, id_: str = "", records: int = 0, oldest: int = 0, **changes: Any) -> ProducerFigures:
    fields: dict[str, Any] = {"agent": PYTHON, "key": "shop key", "seen_at": NOON, "messages": 1}
    return ProducerFigures(source, id_, records, oldest, **{**fields, **changes})


def view(*answers: Answer, source: str | None = None, limit: int = 10) -> Any:
    return msgspec.to_builtins(producers_view(answers, source=source, limit=limit, now=NOON))


def test_a_producer_of_two_receivers_is_one_with_what_is_newest() -> None:
    old = heard("shop", "00000001", 9, 9000, seen_at=NOON - 1000, messages=5)
    found = view(told("a:1", old), told("b:1", heard("shop", "00000001", 2, 2000, messages=3)))
    assert found["items"] == [
        {
            "source": "shop",
            "agent": PYTHON,
            "version": "0.1.0",
            "host": "web-1",
            "key": "shop key",
            "queue": "00000001",
            "records": 2,
            "oldest": "2026-11-21T11:59:58.000Z",
            "last_seen": "2026-11-21T12:00:00.000Z",
            "messages": 8,
            "node": "b:1",
            "path": None,
        }
    ]


def test_who_waits_longest_comes_first_and_then_who_was_heard_last() -> None:
    quiet, late = heard("quiet", agent="curl/8", seen_at=NOON - 5), heard("late", "00000001", 1, 60_000)
    found = view(told("a:1", quiet, heard("b", "00000002"), late, heard("a", "00000003", 1, 5)), limit=3)
    assert [one["source"] for one in found["items"]] == ["late", "a", "b"]
    assert found["left_out"] == 1
    (one,) = view(told("a:1", quiet, late), source="quiet")["items"]
    assert (one["queue"], one["records"], one["oldest"], one["version"], one["host"]) == (None, None, None, "", "")


def test_what_a_sweeper_sees_is_where_it_is() -> None:
    seen = ProducerFigures("shop", "00000001", 7, 1000, "/spool/shop-00000001")
    dead = ProducerFigures("till", "00000002", 1, 2000, "/spool/till-00000002")
    sweeper = told("web-1:2", roles=("sweeper",), producers=(seen, dead))
    known, other = sorted(
        view(told("a:1", heard("shop", "00000001", 2, 10)), sweeper)["items"], key=lambda one: one["source"]
    )
    assert (known["records"], known["path"], known["key"]) == (7, "/spool/shop-00000001", "shop key")
    assert (other["path"], other["key"], other["last_seen"], other["node"]) == (dead.path, None, None, "web-1")


def test_what_is_refused_is_told_with_what_to_do_and_who_does_not_answer() -> None:
    rejected = RejectedFigures("shop", "orders", 422, "too odd", 3, NOON - 9000, NOON, "m1")
    away = TurnedAwayFigures("shop key", USED_KEY_RATE, 4, NOON - 5, NOON, "orders")
    silent = Answer(member("b:1"), 9.0, None, localized("{url} does not answer: {error}", url="http://b", error="x"))
    deaf = Answer(member("c:1", roles=("dispatcher",)), 9.0, None, "away")
    found = view(told("a:1", rejected=(rejected,), turned_away=(away,)), silent, deaf)
    (refused,), (turned_away,), (unheard,) = found["refused"], found["turned_away"], found["unheard"]
    assert (refused["reason"], refused["count"], refused["example"], refused["node"]) == ("too odd", 3, "m1", "a:1")
    assert "bus spool drain --rejected" in refused["next_step"]
    assert (turned_away["whose"], turned_away["why"], turned_away["destination"]) == ("shop key", "key_rate", "orders")
    assert "raise the rate of the key" in turned_away["next_step"]
    assert (unheard["node"], unheard["trouble_text"]["values"]["error"]) == ("b:1", "x")


async def test_the_route_asks_this_process_and_is_not_for_a_key_of_one_destination() -> None:
    world = World()
    world.offer(known_producers=lambda: [heard("shop"), heard("till", agent="Go-http-client/2.0")])
    async with world.client() as client:
        found = (await client.get("/producers", params={"limit": 1})).json()
        assert (len(found["items"]), found["left_out"], found["unheard"]) == (1, 1, [])
        problem(await client.get("/producers", params={"limit": -1}), 422, "limit")
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as viewer:
        problem(await viewer.get("/producers"), 403)


@pytest.mark.parametrize(
    "agent", ["", "pier-", "pier-python/", "pier-python/1 (host ", "x" * 200, "pier-java/9 (host a)"]
)
def test_any_agent_is_shown(agent: str) -> None:
    (one,) = view(told("a:1", heard("shop", agent=agent)))["items"]
    assert one["agent"] == agent
