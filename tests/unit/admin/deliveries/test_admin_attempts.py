"""One attempt as it was made: the request as the dispatcher sends it, the answer, and a command that repeats it."""

from __future__ import annotations

import shlex
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from bus.domain.delivery.delivery import Status
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.times import format_time
from bus.testing.writes import NOON, attempt, message, outcome
from dispatcher.request import RequestMaker
from tests.unit.admin.admin_world import BILLING, URL, World, problem

HOSTILE = 'it\'s $(reboot) `reboot` "x" !x %s \\'


async def failed(world: World, sent: Message, **changes: Any) -> str:
    """Write a failed second attempt, an hour from now by its clock, and return its id."""
    fields: dict[str, Any] = {"status_code": 503, "response": b"busy \xff", **changes}
    made = replace(attempt("second", 2, world.clock.now() + 1_000), **fields)
    await world.store.write([sent, outcome(sent, "billing", Status.RETRYING, 2, attempt=made, url=URL)])
    return made.id


async def look(client: httpx.AsyncClient, message_id: str, which: str = "2", name: str = "billing") -> dict[str, Any]:
    answer = await client.get(f"/messages/{message_id}/deliveries/{name}/attempts/{which}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("secret", [None, "auto"])
async def test_the_request_is_the_one_that_a_dispatcher_sends(
    world: World, client: httpx.AsyncClient, secret: str | None
) -> None:
    constant = {"X-Team": "blue", "User-Agent": "mine"}
    await client.put(BILLING, json={"url": URL, "secret": secret, "headers": constant})
    await world.clock.advance(1)
    sent = message(1, key="k", headers={"x-own": "1", "x-team": "no"}, traceparent="00-1-2-01", tracestate="a=b")
    await failed(world, sent)
    subscription = world.registry.subscription("orders", "billing")
    maker = RequestMaker(subscription, world.context.poster, world.clock.now())
    expected = dict(maker.headers(sent, 2, world.clock.now() + 1_000)) | {"bus-destination": "orders"}
    shown = (await look(client, sent.id))["request"]
    headers = {header["name"]: header["value"] for header in shown["headers"]}
    assert headers.pop("X-Team") == headers.pop("User-Agent") == "***"
    if secret:
        assert expected.pop("webhook-signature").startswith("v1,")
        assert headers.pop("webhook-signature") == "(signed)"
    assert headers == expected
    assert (shown["method"], shown["url"], shown["body_bytes"]) == ("POST", URL, len(sent.body))
    assert shown["body"] == f"/api/v1/messages/{sent.id}/body"


async def test_the_request_of_a_batch_is_the_one_that_a_dispatcher_sends(
    world: World, client: httpx.AsyncClient
) -> None:
    await client.put(BILLING, json={"url": URL, "secret": "auto", "batch": 10, "batch_format": "json"})
    await world.clock.advance(1)
    sent = message(1, key="k", headers={"x-own": "1"})
    subscription = world.registry.subscription("orders", "billing")
    maker = RequestMaker(subscription, world.context.poster, world.clock.now())
    batch = maker.batch([(sent, 2), (message(2), 1)], iter(["7"]), world.clock.now() + 1_000)
    await failed(world, sent, batch=batch.mark)
    found = await look(client, sent.id)
    assert found["attempt"]["batch"] == {"id": "batch-7", "size": 2}
    headers = {header["name"]: header["value"] for header in found["request"]["headers"]}
    expected = dict(batch.headers) | {"webhook-signature": "(signed)"}
    assert headers == expected | {"user-agent": "Pier/1", "bus-destination": "orders"}


async def test_the_answer_and_how_much_of_it_is_kept(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    attempt_id = await failed(world, sent)
    found = await look(client, sent.id, attempt_id)
    assert found == await look(client, sent.id, "2")
    assert found["response"] == {
        "status_code": 503,
        "error": None,
        "body": "busy \ufffd",
        "body_bytes": 6,
        "may_be_cut": False,
    }
    assert (found["attempt"]["n"], found["attempt"]["node"]) == (2, "node-1")
    other = message(2)
    await failed(world, other, response=b"x" * 4096, status_code=None, error="reset")
    response = (await look(client, other.id))["response"]
    assert (response["error"], response["may_be_cut"], response["body_bytes"]) == ("reset", True, 4096)


async def test_the_command_is_safe_in_a_shell(world: World, client: httpx.AsyncClient) -> None:
    await client.put(BILLING, json={"url": f"{URL}?a=[1]&b=$HOME", "secret": "auto"})
    sent = message(1, biz_id=HOSTILE, headers={"x-own": HOSTILE, "x-empty": ""})
    made = replace(attempt("second", 2, world.clock.now()), status_code=503)
    url = world.registry.subscription("orders", "billing").url
    await world.store.write([sent, outcome(sent, "billing", Status.RETRYING, 2, attempt=made, url=url)])
    words = shlex.split((await look(client, sent.id))["request"]["curl"])
    assert words[:5] == ["curl", "--globoff", "-X", "POST", url]
    assert words[-2:] == ["--data-binary", f"@{sent.id}"]
    headers = words[6:-2:2]
    assert {f"bus-biz-id: {HOSTILE}", f"x-own: {HOSTILE}", "x-empty;", "webhook-signature: SIGNATURE"} <= set(headers)


async def test_a_change_of_the_subscription_since_is_told(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await failed(world, sent)
    await world.clock.advance(5)
    request = (await look(client, sent.id))["request"]
    assert (request["changed_at"], request["changes_known"], request["removed"]) == (None, True, False)
    problem(await client.patch(BILLING, json={"url": "ftp://x"}), 422)
    assert (await look(client, sent.id))["request"]["changed_at"] is None
    await client.patch(BILLING, json={"url": f"{URL}/new"})
    request = (await look(client, sent.id))["request"]
    assert (request["changed_at"], request["url"]) == (format_time(world.clock.now()), URL)
    await client.delete(BILLING)
    assert (await look(client, sent.id))["request"]["removed"] is True


async def test_an_attempt_of_a_message_that_has_not_arrived(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await world.store.write([outcome(sent, "billing", Status.DELIVERED)])
    found = await look(client, sent.id, "1")
    assert (found["request"], found["response"]["status_code"]) == (None, 200)


async def test_what_is_not_there_is_a_404(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await failed(world, sent)
    path = f"/messages/{sent.id}/deliveries"
    for place in (f"{path}/nobody/attempts/1", f"{path}/mail/attempts/1", f"{path}/billing/attempts/1"):
        problem(await client.get(place), 404)
    problem(await client.get(f"{path}/billing/attempts/{'x' * 201}"), 422)
    key = await world.keyring.create_key(roles=("operator",), destinations=("mails",))
    async with world.client(key) as operator:
        there = await operator.get(f"{path}/billing/attempts/2")
        unknown = new_id(NOON)
        nowhere = await operator.get(f"/messages/{unknown}/deliveries/billing/attempts/2")
        assert there.text.replace(sent.id, unknown) == nowhere.text
        problem(there, 404)


async def of_many(world: World, count: int) -> Message:
    sent = message(1, expected=("billing",))
    made = [attempt(f"a{n}", n, NOON + n * 10) for n in range(1, count + 1)]
    await world.store.write(
        [sent, *(outcome(sent, "billing", Status.RETRYING, one.n, attempt=one, due_at=NOON) for one in made)]
    )
    return sent


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("all", range(1, 51)),
        ("none", range(0)),
        ("last:3", range(48, 51)),
        ("first:2", range(1, 3)),
        ("last:0", range(0)),
        ("last:9999", range(1, 51)),
    ],
)
async def test_some_of_the_attempts(world: World, client: httpx.AsyncClient, which: str, expected: range) -> None:
    sent = await of_many(world, 50)
    view = (await client.get(f"/messages/{sent.id}", params={"attempts": which})).json()
    (delivery,) = view["deliveries"]
    assert [one["n"] for one in delivery["attempts"]] == list(expected)
    assert (delivery["attempts_made"], delivery["attempts_kept"]) == (50, 50)
    assert any(hop["missing"] for hop in view["hops"]) == (len(expected) < 50)
    assert len({hop["attempt"] for hop in view["hops"]} - {None}) == len(expected)


@pytest.mark.parametrize("which", ["some", "last:", "last:x", "last:99999", "last:-1", ""])
async def test_an_impossible_choice_of_attempts_is_a_422(world: World, client: httpx.AsyncClient, which: str) -> None:
    sent = await of_many(world, 1)
    problem(await client.get(f"/messages/{sent.id}", params={"attempts": which}), 422, "attempts")


async def test_the_hops_tell_how_long_each_step_took(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1, expected=("billing",))
    made = replace(attempt("first", 1, NOON + 100), taken_at=NOON + 40)
    await world.store.write([sent, outcome(sent, "billing", Status.DELIVERED, attempt=made, at=NOON + 105)])
    view = (await client.get(f"/messages/{sent.id}")).json()
    assert [(hop["place"], hop["ms_since_previous"]) for hop in view["hops"]] == [
        ("producer", None),
        ("receiver", 2),
        ("dispatcher", 37),
        ("dispatcher", 60),
        ("subscriber", 2),
        ("dispatcher", 3),
    ]
    assert view["deliveries"][0]["attempts"][0]["phases"]["queue"] == 60
