"""Failures grouped over the admin API, and a group resent."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY, format_time
from bus.domain.tracing.failures import Failures
from bus.errors import StoreUnavailable
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem


async def fail(world: World, number: int, reason: str, status: Status = Status.DEAD, **changes: Any) -> str:
    """Write a message whose delivery to ``billing`` failed."""
    one = message(number, expected=("billing",), **changes)
    await world.store.write([one, outcome(one, "billing", status, reason=reason)])
    return one.id


async def failures(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/failures", params={name.rstrip("_"): value for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_groups_say_how_to_go_on(world: World, client: httpx.AsyncClient) -> None:
    for number in range(3):
        last = await fail(world, number, f"connection refused by 10.0.0.{number}:80; retries exhausted after 3")
    await fail(world, 5, "HTTP 500", Status.RETRYING)
    found = await failures(client)
    assert found["items"][0] == {
        "destination": "orders",
        "subscription": "billing",
        "signature": "connection refused by <address>",
        "example": "connection refused by 10.0.0.2:80",
        "advice": (helps := "there was no answer: see whether it runs and can be reached, then resend"),
        "advice_text": {"template": helps, "values": {}},
        "count": 3,
        "deliveries": {"dead": 3},
        "first_seen": format_time(NOON + 12),
        "last_seen": format_time(NOON + 14),
        "sample": last,
        "filter": {
            "destination": "orders",
            "subscription": "billing",
            "signature": "connection refused by <address>",
        },
    }
    assert [(item["signature"], item["deliveries"]) for item in found["items"][1:]] == [("HTTP 500", {"retrying": 1})]
    assert (found["next"], found["complete"], found["complete_since"]) == (None, True, None)


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("HTTP 422; not tried again, as the subscription says", "it refuses messages as they are"),
        ("HTTP 404; retries exhausted after 3", "it refuses messages as they are"),
        ("HTTP 429; retries exhausted after 3", "it answered and failed"),
        ("HTTP 503", "it answered and failed"),
        ("127.0.0.1: nobody listens on port 80", "there was no answer"),
        ("", "open the example"),
    ],
)
async def test_a_refusal_needs_other_help_than_a_dead_host(
    world: World, client: httpx.AsyncClient, reason: str, helps: str
) -> None:
    await fail(world, 1, reason)
    (group,) = (await failures(client))["items"]
    assert group["advice"].startswith(helps)


async def test_a_group_is_resent_and_nothing_else(world: World, client: httpx.AsyncClient) -> None:
    wanted = [await fail(world, number, "HTTP 503; retries exhausted after 3") for number in range(3)]
    other = await fail(world, 7, "HTTP 404")
    (group,) = [item for item in (await failures(client))["items"] if item["signature"] == "HTTP 503"]
    preview = await client.post("/resends", json={"filter": group["filter"], "dry_run": True})
    assert preview.json()["count"] == group["count"] == 3
    found = await client.get("/messages", params=group["filter"])
    assert [item["id"] for item in found.json()["items"]] == wanted[::-1]
    answer = await client.post("/resends", json={"filter": group["filter"]})
    assert answer.status_code == 202
    await world.clock.advance(5)
    for message_id in wanted:
        assert (await world.delivery(message_id)).status is Status.RESEND
    assert (await world.delivery(other)).status is Status.DEAD
    assert [item["signature"] for item in (await failures(client))["items"]] == ["HTTP 404"]
    (job,) = (await client.get("/resends")).json()["items"]
    assert job["filter"]["signature"] == "HTTP 503"


async def test_a_resend_takes_only_the_deliveries_that_fail_so(world: World, client: httpx.AsyncClient) -> None:
    one = message(0)
    await world.store.write(
        [
            one,
            outcome(one, "billing", Status.DEAD, reason="HTTP 500"),
            outcome(one, "mail", Status.DEAD, reason="HTTP 404"),
        ]
    )
    answer = await client.post("/resends", json={"filter": {"signature": "HTTP 500"}, "dry_run": True})
    assert answer.json()["count"] == 1
    await client.post("/resends", json={"filter": {"signature": "HTTP 500"}})
    await world.clock.advance(5)
    assert (await world.delivery(one.id, "billing")).status is Status.RESEND
    assert (await world.delivery(one.id, "mail")).status is Status.DEAD


async def test_a_range_is_in_the_filter_too(world: World, client: httpx.AsyncClient) -> None:
    for day in range(3):
        await fail(world, day * DAY, "HTTP 500")
    window = {"from_": format_time(NOON + DAY), "to": format_time(NOON + 2 * DAY)}
    (group,) = (await failures(client, **window, destination="orders", subscription="billing"))["items"]
    assert group["count"] == 1
    assert group["filter"]["from"] == window["from_"]
    assert group["filter"]["to"] == window["to"]
    assert (await failures(client, subscription="mail"))["items"] == []


async def test_what_is_not_there_is_said(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, word in enumerate(("one", "two", "three")):
        await fail(world, number, word)
    found = await failures(client, limit=2)
    assert len(found["items"]) == 2
    assert not found["complete"]
    assert (await failures(client, limit=3))["complete"]
    whole = await world.store.failures(Selection())

    async def partial(_: Selection) -> Failures:
        return whole._replace(since=NOON)

    monkeypatch.setattr(world.store, "failures", partial)
    found = await failures(client)
    assert (found["complete"], found["complete_since"]) == (False, format_time(NOON))


async def test_one_group_is_asked_for(world: World, client: httpx.AsyncClient) -> None:
    await fail(world, 0, "HTTP 500")
    await fail(world, 1, "connection refused by 10.0.0.1:80")
    signature = "connection refused by <address>"
    found = await failures(client, destination="orders", subscription="billing", signature=signature, limit=1)
    assert [item["example"] for item in found["items"]] == ["connection refused by 10.0.0.1:80"]
    assert found["complete"]
    assert (await failures(client, signature=""))["items"] == []


async def test_examples_are_read_for_the_first_groups_and_few_at_once(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"{first}{second} 7" for first in "abcdefgh" for second in "abcdefgh"]
    for number, word in enumerate(words):
        await fail(world, number, word)
    real, reading, most, calls = world.store.trace, 0, 0, 0

    async def trace(message_id: str) -> Any:
        nonlocal reading, most, calls
        reading, calls = reading + 1, calls + 1
        most = max(most, reading)
        await asyncio.sleep(0)
        found = await real(message_id)
        reading -= 1
        return found

    monkeypatch.setattr(world.store, "trace", trace)
    shown = [item["example"] for item in (await failures(client, limit=len(words)))["items"]]
    assert (shown[:50], shown[50:]) == (sorted(words)[:50], [f"{word[:2]} <n>" for word in sorted(words)[50:]])
    assert (calls, most) == (50, 16)


@pytest.mark.parametrize("trouble", ["store", "delivered", "other error", "gone"])
async def test_a_group_without_an_example_shows_its_signature(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    sample = await fail(world, 0, "timed out after 10 s")
    whole = await world.store.trace(sample)
    assert whole is not None
    delivery = whole.deliveries["billing"]

    async def trace(_: str) -> Any:
        if trouble == "store":
            raise StoreUnavailable("the store is down")
        if trouble == "delivered":
            delivery.status = Status.DELIVERED
        delivery.reason = "HTTP 404"
        return None if trouble == "gone" else whole

    monkeypatch.setattr(world.store, "trace", trace)
    (group,) = (await failures(client))["items"]
    assert group["example"] == "timed out after <n> s"


async def test_a_key_for_some_destinations_sees_these(world: World) -> None:
    await fail(world, 0, "HTTP 500")
    await fail(world, 1, "HTTP 404", destination="mails")
    await world.keyring.create_key(roles=("admin",))
    limited = await world.keyring.create_key(roles=("viewer",), destinations=("mails",))
    async with world.client(limited) as client:
        assert [item["destination"] for item in (await failures(client))["items"]] == ["mails"]
        assert [item["destination"] for item in (await failures(client, destination="mails"))["items"]] == ["mails"]
        problem(await client.get("/failures", params={"destination": "orders"}), 403)
    async with world.client(await world.keyring.create_key(roles=("producer",))) as client:
        problem(await client.get("/failures"), 403)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "now"}, "from"),
        ({"from": format_time(NOON), "to": format_time(NOON)}, "from"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
    ],
)
async def test_what_cannot_be_answered_names_its_field(
    client: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    problem(await client.get("/failures", params=query), 422, field)


async def test_a_signature_that_none_can_be_is_refused(client: httpx.AsyncClient) -> None:
    problem(await client.post("/resends", json={"filter": {"signature": "x" * 201}}), 422, "filter.signature")
    problem(await client.get("/messages", params={"signature": "x" * 201}), 422, "signature")
