"""Edit-and-resend: a new message made of an old one, each naming the other, and nothing of it in the log."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from admin.repair.editing import EDITS
from bus.domain.delivery.delivery import Origin, Status
from bus.domain.identity import new_id
from bus.domain.message import decode_message
from bus.domain.times import DAY, format_time
from bus.domain.tracing.events import Stage
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem


async def edit(client: httpx.AsyncClient, message_id: str, **fields: Any) -> httpx.Response:
    return await client.post(f"/messages/{message_id}/edit", json={"reason": "wrong address", **fields})


async def test_an_edited_message_is_a_new_one_and_the_old_is_untouched(world: World, client: httpx.AsyncClient) -> None:
    texts = {"traceparent": "00-1-2-01", "idempotency_key": "once", "claim": "aa", "original_id": "o"}
    sent = message(1, headers={"x-a": "a"}, key="k", **texts)
    await world.store.write([sent, outcome(sent, "billing", Status.DEAD), outcome(sent, "mail", Status.DELIVERED)])
    before = await world.store.trace(sent.id)
    content = '{"request": 1.0, "body": {"a":1.50,  "b": 12345678901234567890123}, "reason": "wrong address"}'
    content = content.replace('"request": 1.0, ', "")
    answer = await client.post(
        f"/messages/{sent.id}/edit", content=content, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 202, answer.text
    made_id = answer.json()["id"]
    assert answer.json() == {"id": made_id, "edited_from": sent.id, "subscriptions": ["billing", "mail"]}
    made = await world.store.message(made_id)
    assert made is not None
    assert made.body == b'{"a":1.50,  "b": 12345678901234567890123}'
    assert (made.content_type, made.key, made.headers) == ("application/json", "k", {"x-a": "a"})
    assert (made.biz_id, made.source, made.traceparent) == (sent.biz_id, sent.source, sent.traceparent)
    assert (made.sent_at, made.received_at, made.deliver_at) == (world.clock.now(), world.clock.now(), 0)
    assert (made.idempotency_key, made.claim, made.original_id, made.edited_from) == ("", "", "", sent.id)
    assert await world.store.trace(sent.id) == before
    rows = [row for row in await world.rows() if row.message_id == made_id]
    assert {(row.subscription, row.by, row.due_at, row.attempts) for row in rows} == {
        (name, Origin.RESEND, world.clock.now(), 0) for name in ("billing", "mail")
    }
    assert all(decode_message(row.message) == made for row in rows)


async def test_an_edited_message_is_told_once_it_is_durable(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD, biz_id="42")
    made = (await edit(client, sent.id, body={"a": 2})).json()["id"]
    accepted, published = world.events.told
    assert (accepted.stage, accepted.id, accepted.expected) == (Stage.ACCEPTED, made, ("billing", "mail"))
    assert (accepted.biz_id, accepted.bytes, accepted.at) == ("42", len(b'{"a":2}'), world.clock.now())
    assert (published.stage, published.id, published.status) == (Stage.PUBLISHED, made, "confirmed")
    assert published.transport == "store"  # from where its due work goes to a dispatcher
    world.events.told.clear()
    world.store.left = 1  # the link
    assert (await edit(client, sent.id, body={"a": 3})).status_code == 503
    assert world.events.told == []


async def test_both_traces_name_each_other(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    made = (await edit(client, sent.id, body={"a": 2}, subscriptions=["mail"])).json()["id"]
    at = format_time(world.clock.now())
    link = {"by": "anyone", "reason": "wrong address", "at": at}
    old, new = [(await client.get(f"/messages/{one}")).json() for one in (sent.id, made)]
    assert (old["edited_from"], old["edits"]) == (None, [{"id": made, **link}])
    assert (new["edited_from"], new["edits"]) == ({"id": sent.id, **link}, [])
    (delivery,) = new["deliveries"]
    assert (delivery["subscription"], delivery["status"], delivery["reason"]) == ("mail", "resend", "wrong address")
    assert delivery["resends"] == [{"generation": 1, "job": None, **link}]


async def test_what_is_paused_holds_it_and_says_so(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    await client.patch("/destinations/orders", json={"paused": True})
    made = (await edit(client, sent.id, subscriptions=["billing"])).json()["id"]
    (delivery,) = (await client.get(f"/messages/{made}")).json()["deliveries"]
    assert (delivery["status"], delivery["reason"]) == ("resend", "wrong address")
    assert delivery["detail"] == "the destination is paused"


async def test_a_delivery_of_it_ends_as_any_other(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    made = (await edit(client, sent.id, subscriptions=["billing"])).json()["id"]
    (row,) = [row for row in await world.rows() if row.message_id == made]
    await world.attempted(row, Status.DELIVERED)
    view = (await client.get(f"/messages/{made}")).json()
    assert (view["status"], view["deliveries"][0]["attempts"][0]["n"]) == ("delivered", 1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"body": b"body 1", "content_type": "text/plain"}),
        ({"body": None}, {"body": b"null", "content_type": "application/json"}),
        ({"body": "x", "content_type": "text/json"}, {"body": b'"x"', "content_type": "text/json"}),
        (
            {"body_base64": base64.b64encode(b"\x00\xff").decode()},
            {"body": b"\x00\xff", "content_type": "text/plain"},
        ),
        ({"headers": {"X-B": "b "}}, {"headers": {"x-b": "b"}}),
        ({"headers": {}, "key": "", "biz_id": "other"}, {"headers": {}, "key": "", "biz_id": "other"}),
    ],
)
async def test_what_is_not_given_stays(
    world: World, client: httpx.AsyncClient, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = message(1, headers={"x-a": "a"}, key="k", content_type="text/plain")
    await world.store.write([sent])
    made = await world.store.message((await edit(client, sent.id, **fields)).json()["id"])
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        *(({"reason": ""}, 422, "reason"), ({"reason": None}, 422, "reason"), ({"nonsense": 1}, 422, "nonsense")),
        *(({"body": 1, "body_base64": "eA=="}, 422, None), ({"body_base64": "?"}, 422, "body_base64")),
        *(({"headers": {"bus-key": "x"}}, 422, "headers"), ({"headers": {"a b": "x"}}, 422, "headers")),
        *(({"headers": {"a": "x\ny"}}, 422, "headers"), ({"content_type": "ü"}, 422, "content_type")),
        *(({"key": "x" * 513}, 422, "key"), ({"biz_id": "\x00"}, 422, "biz_id"), ({"body": "x" * 2**20}, 413, None)),
        *(({"subscriptions": []}, 422, "subscriptions"), ({"subscriptions": ["nobody"]}, 404, None)),
    ],
)
async def test_an_impossible_edit_makes_nothing(
    world: World, client: httpx.AsyncClient, fields: dict[str, Any], status: int, field: str | None
) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    problem(await edit(client, sent.id, **fields), status, field)
    assert list(world.store._traces) == [sent.id]
    assert await world.store.list(EDITS) == []


async def test_a_large_body_of_a_large_destination_is_taken(world: World, client: httpx.AsyncClient) -> None:
    await client.patch("/destinations/orders", json={"max_bytes": 3_000_000})
    (sent,) = await world.written(1, Status.DEAD)
    made = (await edit(client, sent.id, body_base64=base64.b64encode(bytes(3_000_000)).decode())).json()["id"]
    stored = await world.store.message(made)
    assert stored is not None
    assert stored.body == bytes(3_000_000)


async def test_nobody_to_get_it_is_a_conflict(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    for name in ("billing", "mail"):
        await client.delete(f"/destinations/orders/subscriptions/{name}")
    problem(await edit(client, sent.id), 409)
    await client.delete("/destinations/orders")
    problem(await edit(client, sent.id), 404)


async def test_the_log_says_who_and_why_and_no_body(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    made = (await edit(client, sent.id, body={"pin": "secret-1"}, headers={"x-a": "secret-2"})).json()["id"]
    problem(await edit(client, sent.id, body={"pin": "secret-3"}, key="x" * 600), 422)
    answer = await client.get("/audit", params={"what": f"messages/{sent.id}/edit"})
    refused, done = answer.json()["items"]
    assert (done["status"], refused["status"]) == (202, 422)
    assert "secret" not in answer.text
    assert done["changes"]["reason"]["after"] == "wrong address"
    assert done["changes"]["body"]["after"] == "edited, 18 bytes"
    assert done["changes"]["id"]["after"] == made


async def test_who_may_not_resend_edits_nothing(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    unknown = new_id(NOON + 1)
    for role, destination, status in (
        ("viewer", "orders", 403),
        ("operator", "mails", 404),
        ("operator", "orders", 202),
    ):
        key = await world.keyring.create_key(roles=(role,), destinations=(destination,))
        async with world.client(key) as who:
            answer = await edit(who, sent.id)
            assert answer.status_code == status
            if status == 404:
                assert answer.text.replace(sent.id, unknown) == (await edit(who, unknown)).text


async def test_a_write_that_failed_leaves_no_link_in_sight(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    world.store.left = 2  # the entry in the log, and the link
    problem(await edit(client, sent.id), 503)
    world.store.left, world.store.down = None, False
    assert len(await world.store.list(EDITS)) == 1
    assert (await client.get(f"/messages/{sent.id}")).json()["edits"] == []


async def test_links_go_with_their_messages(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    await edit(client, sent.id)
    assert await world.services.editor.expire() == 0
    made = (await client.get(f"/messages/{sent.id}")).json()["edits"][0]["id"]
    await world.clock.advance(30 * DAY / 1000 + 1)
    assert await world.services.editor.expire() == 1
    assert (await client.get(f"/messages/{made}")).json()["edited_from"] == {
        "id": sent.id, "by": None, "reason": None, "at": None,
    }  # fmt: skip
