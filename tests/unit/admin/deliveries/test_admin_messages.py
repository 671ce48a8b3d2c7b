"""Search, trace, body and the resend of one message over the admin API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Origin, Outcome, Status
from bus.domain.identity import new_id
from bus.domain.times import format_time
from bus.testing.writes import NOON, attempt, message, outcome
from tests.unit.admin.admin_world import URL, World, problem


async def search(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """Return the biz ids of all pages."""
    found: list[str] = []
    cursor = None
    while True:
        answer = await client.get("/messages", params={**query, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200, answer.text
        found += [item["biz_id"] for item in answer.json()["items"]]
        cursor = answer.json()["next"]
        if cursor is None:
            return found


async def test_a_message_in_a_list(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    (item,) = (await client.get("/messages")).json()["items"]
    assert item == {
        "id": sent.id,
        "destination": "orders",
        "biz_id": "order-0",
        "source": "shop",
        "status": "delivered",
        "delivered": 1,
        "subscriptions": 1,
        "sent_at": format_time(sent.sent_at),
        "received_at": format_time(sent.received_at),
        "completed_at": format_time(sent.received_at + 10),
        "bytes": len(sent.body),
        "attempts": 1,
        "next_attempt_at": None,
    }


async def test_search_by_everything(world: World, client: httpx.AsyncClient) -> None:
    await world.written(6, Status.PENDING, Status.DELIVERED, Status.DEAD)
    await world.store.write([message(9, destination="mails", source="crm", biz_id="x", expected=())])
    everything = ["x", *(f"order-{n}" for n in (5, 4, 3, 2, 1, 0))]
    assert await search(client) == everything
    assert await search(client, limit=2) == everything
    assert await search(client, destination="mails") == ["x"]
    assert await search(client, status="dead") == ["order-5", "order-2"]
    assert await search(client, status="skipped") == ["x"]
    assert await search(client, subscription="billing", status="delivered") == ["order-4", "order-1"]
    assert await search(client, subscription="nobody") == []
    assert await search(client, biz_id="order-3") == ["order-3"]
    assert await search(client, source="crm") == ["x"]
    assert await search(client, q="rder-1") == ["order-1"]
    assert await search(client, **{"from": format_time(NOON + 4)}) == ["x", "order-5", "order-4"]
    assert await search(client, to=format_time(NOON + 2), limit=1) == ["order-1", "order-0"]
    assert await search(client, destination="nowhere") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("status=lost", "status")),
        *(("from=yesterday", "from"), ("to=2026-01-01", "to"), ("from=", "from")),
    ],
)
async def test_an_impossible_search_is_a_422(client: httpx.AsyncClient, query: str, field: str) -> None:
    problem(await client.get(f"/messages?{query}"), 422, field)


async def test_the_trace_tells_the_whole_life(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1, headers={"X-A": "ü"}, key="k", traceparent="00-1-2-01", idempotency_key="once")
    failed = outcome(sent, "billing", Status.RETRYING)
    made = attempt("second", 2, NOON + 30)
    await world.store.write([sent, failed, outcome(sent, "billing", Status.DELIVERED, 2, attempt=made)])
    view = (await client.get(f"/messages/{sent.id.upper()}")).json()
    assert (view["id"], view["status"], view["completed_at"]) == (sent.id, "pending", None)
    assert (
        view["message"].items()
        >= {
            "content_type": "application/octet-stream",
            "key": "k",
            "routing_key": "",
            "headers": {"X-A": "ü"},
            "deliver_at": None,
            "traceparent": "00-1-2-01",
            "original_id": "",
            "idempotency_key": "once",
            "expected": ["billing", "mail"],
            "retention_days": 30,
        }.items()
    )
    billing, mail = view["deliveries"]
    assert (billing["subscription"], billing["status"], billing["generation"]) == ("billing", "delivered", 0)
    assert [(one["n"], one["id"]) for one in billing["attempts"]] == [(1, f"{sent.id}.billing.1"), (2, "second")]
    assert billing["attempts"][1] == {
        "id": "second",
        "n": 2,
        "by": "road",
        "started_at": format_time(NOON + 30),
        "duration_ms": 2.5,
        "phases": {"send": 0.5, "first_byte": 1.5, "receive": 0.5},
        "status_code": 200,
        "error": None,
        "response": None,
        "node": "node-1",
        "generation": 0,
        "taken_at": None,
        "batch": None,
        "out_of_order": False,
    }
    nobody = "no dispatcher has a share of the permits yet"
    assert mail == {
        "subscription": "mail",
        "url": URL,
        "status": "pending",
        "reason": "",
        "detail": "",
        "held": {"cause": "permits", "what": nobody, "what_text": {"template": nobody, "values": {}}},
        "at": format_time(sent.received_at),
        "due_at": None,
        "generation": 0,
        "attempts": [],
        "attempts_made": 0,
        "attempts_kept": 0,
        "resends": [],
    }


async def test_a_failed_delivery_says_why_and_when_again(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1, expected=("billing",))
    await world.store.write([sent, outcome(sent, "billing", Status.RETRYING)])
    (delivery,) = (await client.get(f"/messages/{sent.id}")).json()["deliveries"]
    assert (delivery["status"], delivery["reason"]) == ("retrying", "500")
    assert delivery["due_at"] == format_time(sent.received_at + 1010)


async def test_what_waits_says_why(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1, expected=("billing", "mail"), deliver_at=NOON + 3_600_000)
    await world.store.write([sent])

    async def reasons() -> list[str]:
        return [delivery["reason"] for delivery in (await client.get(f"/messages/{sent.id}")).json()["deliveries"]]

    assert await reasons() == ["scheduled"] * 2
    await client.patch("/destinations/orders/subscriptions/mail", json={"paused": True})
    assert await reasons() == ["scheduled", "paused"]
    await client.patch("/destinations/orders", json={"paused": True})
    assert await reasons() == ["paused"] * 2


async def test_a_message_that_nobody_subscribed_to_says_so(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1, expected=())
    await world.store.write([sent])
    view = (await client.get(f"/messages/{sent.id}")).json()
    assert (view["status"], view["reason"], view["deliveries"]) == ("skipped", "no subscription", [])


async def test_an_outcome_may_come_before_its_message(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await world.store.write([outcome(sent, "billing", Status.DELIVERED)])
    view = (await client.get(f"/messages/{sent.id}")).json()
    assert (view["status"], view["received_at"], view["bytes"]) == ("delivered", None, 0)
    assert "message" not in view
    problem(await client.get(f"/messages/{sent.id}/body"), 404)
    problem(await client.post(f"/messages/{sent.id}/resend"), 404)


@pytest.mark.parametrize(
    "content_type", ["text/html", "text/plain", "image/png", "application/json; charset=latin-1", ""]
)
async def test_the_body_comes_byte_for_byte_and_is_never_rendered(
    world: World, client: httpx.AsyncClient, content_type: str
) -> None:
    sent = message(1, body=b"<script>\x00\xff", content_type=content_type)
    await world.store.write([sent])
    answer = await client.get(f"/messages/{sent.id}/body")
    assert answer.content == sent.body
    assert answer.headers["content-type"] == content_type
    assert answer.headers["content-disposition"] == f'attachment; filename="{sent.id}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"].split("; ")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"b":1.50,"a":[12345678901234567890123],"b":2}',
            '{\n  "b": 1.50,\n  "a": [\n    12345678901234567890123\n  ],\n  "b": 2\n}',
        ),
        (b'"\xc3\xbc"', '"ü"'),
        (b"{a: 1}", False),
        (b"", False),
        (b"[" * 100_000, False),
        (b"\xff", None),
    ],
    ids=range(6),
)
async def test_the_body_to_read(
    world: World, client: httpx.AsyncClient, body: bytes, expected: str | bool | None
) -> None:
    sent = message(1, body=body)
    await world.store.write([sent])
    found = (await client.get(f"/messages/{sent.id}/body", params={"as": "pretty"})).json()
    is_json = isinstance(expected, str)
    text = expected if is_json or expected is None else body.decode()
    assert found == {"json": is_json, "text": text, "bytes": len(body)}
    problem(await client.get(f"/messages/{sent.id}/body", params={"as": "x"}), 422, "as")
    audit = (await client.get("/audit", params={"what": f"messages/{sent.id}/body"})).json()["items"]
    assert len(audit) == 1


NOWHERE = ["x", "0", "%C3%A9", new_id(NOON), new_id(2**48 - 1), new_id(0), "a" * 5000]


@pytest.mark.parametrize("message_id", NOWHERE, ids=range(7))
async def test_a_message_that_is_not_there_is_a_404(client: httpx.AsyncClient, message_id: str) -> None:
    for path in ("", "/body"):
        problem(await client.get(f"/messages/{message_id}{path}"), 404)
    problem(await client.post(f"/messages/{message_id}/resend"), 404)


async def resend(client: httpx.AsyncClient, message_id: str, *names: str) -> httpx.Response:
    return await client.post(f"/messages/{message_id}/resend", json={"subscriptions": list(names) or None})


async def job(client: httpx.AsyncClient, answer: httpx.Response) -> dict[str, Any]:
    found = await client.get(f"/resends/{answer.json()['id']}")
    assert found.status_code == 200, found.text
    return found.json()


async def test_a_resend_is_due_at_once_and_its_job_tells_how_it_ended(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await world.store.write([sent, outcome(sent, "billing", Status.DEAD, 5), outcome(sent, "mail", Status.DELIVERED)])
    answer = await resend(client, sent.id)
    assert answer.status_code == 202
    assert answer.json()["subscriptions"] == ["billing", "mail"]
    billing, mail = sorted(await world.rows(), key=lambda found: found.subscription)
    assert (billing.generation, billing.attempts, billing.tries, billing.since) == (1, 5, 0, world.clock.now())
    assert (billing.due_at, billing.by) == (world.clock.now(), Origin.RESEND)
    assert (await world.delivery(sent.id)).reason == "resent by anyone"
    await world.clock.settle()
    counts = (await job(client, answer))["counts"]
    assert (counts["selected"], counts["waiting"]) == (2, 2)
    await world.attempted(billing, Status.DELIVERED)
    await world.attempted(mail, Status.RETRYING)
    await world.clock.advance(1)
    found = await job(client, answer)
    assert found["state"] == "done"
    assert found["counts"] == {
        "selected": 2,
        "waiting": 0,
        "delivered": 1,
        "discarded": 0,
        "failed": 1,
        "skipped": 0,
        "missing": 0,
        "canceled": 0,
    }
    items = (await client.get(f"/resends/{found['id']}/items")).json()["items"]
    assert [(item["subscription"], item["outcome"]) for item in items] == [("billing", "delivered"), ("mail", "failed")]


async def test_a_trace_names_the_origin_of_each_resend(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    first = await client.post(
        f"/messages/{sent.id}/resend", json={"subscriptions": ["billing"], "reason": "the shop is back"}
    )
    at = format_time(world.clock.now())
    (row,) = await world.rows()
    await world.attempted(row, Status.DEAD)
    await world.clock.advance(1)
    second = await client.post("/resends", json={"filter": {"status": "dead"}, "reason": "a bad hour"})
    await world.clock.settle()
    (delivery,) = (await client.get(f"/messages/{sent.id}")).json()["deliveries"]
    assert delivery["resends"] == [
        {"generation": 1, "job": first.json()["id"], "by": "anyone", "reason": "the shop is back", "at": at},
        {
            "generation": 2,
            "job": second.json()["id"],
            "by": "anyone",
            "reason": "a bad hour",
            "at": format_time(world.clock.now()),
        },
    ]


async def test_a_resend_of_named_subscriptions(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD, names=("billing", "mail"))
    assert (await resend(client, sent.id, "mail")).json()["subscriptions"] == ["mail"]
    assert (await world.delivery(sent.id)).status is Status.DEAD
    assert (await world.delivery(sent.id, "mail")).status is Status.RESEND


async def test_a_message_is_replayed_to_a_later_subscription(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    assert (await resend(client, sent.id, "mail")).status_code == 202
    (found,) = await world.rows()
    assert (found.subscription, found.generation, found.attempts) == ("mail", 1, 0)


async def test_a_second_resend_begins_another_generation(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    first = await resend(client, sent.id, "billing")
    second = await resend(client, sent.id, "billing")
    (found,) = await world.rows()
    assert found.generation == 2
    await world.attempted(found, Status.DELIVERED)
    await world.clock.advance(1)
    assert (await job(client, first))["counts"]["skipped"] == 1
    assert (await job(client, second))["counts"]["delivered"] == 1


async def test_a_resend_of_what_may_be_under_way_gets_an_attempt_number_of_its_own(
    world: World, client: httpx.AsyncClient
) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    await resend(client, sent.id, "billing")
    (first,) = await world.rows()  # a dispatcher POSTs it while a person resends again
    await resend(client, sent.id, "billing")
    await world.attempted(first, Status.DELIVERED)
    (second,) = await world.rows()
    await world.attempted(second, Status.DELIVERED)
    numbers = [attempt.n for attempt in (await world.delivery(sent.id)).attempts.values()]
    assert sorted(numbers) == [1, 2, 3]


async def test_a_resend_of_what_waits_for_its_retry_leaves_no_number_out(
    world: World, client: httpx.AsyncClient
) -> None:
    sent = message(1, expected=("billing",))
    due_at = world.clock.now() + 60_000
    await world.store.write([sent, outcome(sent, "billing", Status.RETRYING, 3, due_at=due_at)])
    await resend(client, sent.id, "billing")
    (row,) = await world.rows()
    assert (row.generation, row.attempts) == (1, 3)


async def test_what_is_on_its_way_is_not_resent(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await world.store.write([sent, outcome(sent, "billing", Status.DEAD)])
    problem(await resend(client, sent.id, "billing", "mail"), 409)
    problem(await resend(client, sent.id, "mail"), 409)
    assert await world.rows() == []
    assert (await resend(client, sent.id)).json()["subscriptions"] == ["billing"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"subscriptions": ["nobody"]}, 404, None),
        ({"subscriptions": []}, 422, "subscriptions"),
        ({"subscriptions": "billing"}, 422, "subscriptions"),
        ({"nonsense": 1}, 422, "nonsense"),
    ],
)
async def test_an_impossible_resend(
    world: World, client: httpx.AsyncClient, body: dict, status: int, field: str | None
) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    problem(await client.post(f"/messages/{sent.id}/resend", json=body), status, field)
    assert await world.rows() == []


async def test_a_late_outcome_of_before_does_not_undo_a_resend(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.RETRYING)
    await resend(client, sent.id, "billing")
    late: Outcome = outcome(sent, "billing", Status.DELIVERED, 2)
    await world.store.write([late])
    assert (await world.delivery(sent.id)).status is Status.RESEND
    assert len(await world.rows()) == 1


async def test_a_store_that_is_down_is_a_503(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    world.store.down = True
    problem(await client.get("/messages"), 503)
    problem(await client.get(f"/messages/{sent.id}"), 503)
    problem(await resend(client, sent.id), 503)


async def operator_of(world: World, *destinations: str, role: str = "operator") -> httpx.AsyncClient:
    return world.client(await world.keyring.create_key(roles=(role,), destinations=destinations))


def without_id(answer: httpx.Response, message_id: str) -> str:
    return answer.text.replace(message_id, "ID")


async def test_a_key_of_one_destination_opens_its_messages(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with await operator_of(world, "orders") as operator:
        (item,) = (await operator.get("/messages", params={"destination": "orders"})).json()["items"]
        assert (await operator.get(f"/messages/{item['id']}")).json()["destination"] == "orders"
        assert (await operator.get(f"/messages/{sent.id}/body")).content == sent.body
        answer = await resend(operator, sent.id)
        assert answer.status_code == 202
        found = await job(operator, answer)
        assert found["filter"] == {"destination": "orders", "q": sent.id}
        assert (await operator.get(f"/resends/{found['id']}/items")).status_code == 200
        assert [one["id"] for one in (await operator.get("/resends")).json()["items"]] == [found["id"]]
        assert (await operator.delete(f"/resends/{found['id']}")).status_code == 200


async def test_a_key_of_another_destination_cannot_tell_whether_a_message_is_there(
    world: World, client: httpx.AsyncClient
) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    unknown = new_id(NOON + 1)
    async with await operator_of(world, "mails") as operator:
        for method, path in (("GET", ""), ("GET", "/body"), ("POST", "/resend")):
            there = await operator.request(method, f"/messages/{sent.id}{path}")
            problem(there, 404)
            nowhere = await operator.request(method, f"/messages/{unknown}{path}")
            assert without_id(there, sent.id) == without_id(nowhere, unknown)
        named = await resend(operator, sent.id, "nobody")
        assert without_id(named, sent.id) == without_id(await resend(operator, unknown, "nobody"), unknown)
    assert await world.rows() == []


async def test_a_viewer_of_one_destination_resends_nothing(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with await operator_of(world, "orders", role="viewer") as viewer:
        assert (await viewer.get(f"/messages/{sent.id}")).status_code == 200
        problem(await resend(viewer, sent.id), 403)
        problem(await resend(viewer, new_id(NOON)), 403)
    async with await operator_of(world, "orders", role="producer") as producer:
        for path in ("", "/body"):
            problem(await producer.get(f"/messages/{sent.id}{path}"), 403)
