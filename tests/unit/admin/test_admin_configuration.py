"""Destinations and subscriptions over the admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bus.domain.delivery import Origin, Status
from bus.domain.destination import FORMER_KEPT, FormerRoad, TransportName
from bus.domain.subscription import Secret
from bus.errors import TransportRefused
from bus.testing.transport import MemoryTransport
from bus.testing.writes import message, outcome, row
from tests.unit.admin.admin_world import URL, World, problem

DESTINATION = {
    "code": "orders",
    "transport": "direct",
    "cluster": None,
    "routing": None,
    "ordering": "none",
    "retention_days": 30,
    "store_rate": None,
    "max_bytes": 1_048_576,
    "paused": False,
}
SUBSCRIPTION = {
    "name": "billing",
    "url": URL,
    "max_concurrency": 16,
    "rate": None,
    "timeout_seconds": 10.0,
    "retry": ["5s", "30s", "2m", "10m", "1h", "3h", "8h", "12h"],
    "retry_max_age": "7d",
    "retry_max_attempts": None,
    "secret": None,
    "filter": None,
    "headers": {},
    "batch": 1,
    "on_failure": "block",
    "paused": False,
    "routing_pattern": "#",
    "stuck_after": "5m",
    "paused_reason": "",
}
BILLING = "/destinations/orders/subscriptions/billing"


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


@pytest.fixture
async def orders(client: httpx.AsyncClient) -> None:
    assert (await client.put("/destinations/orders", json={})).status_code == 200


async def put(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.put(BILLING, json={"url": URL, **fields})


async def made(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await put(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- destinations --------------------------------------------------------------------------------------------------


async def test_a_destination_has_the_defaults_of_the_contract(client: httpx.AsyncClient) -> None:
    assert (await client.put("/destinations/orders", json={})).json() == DESTINATION
    assert (await client.get("/destinations/orders")).json() == DESTINATION
    await client.put("/destinations/a.b", json={"code": "a.b"})
    answer = (await client.get("/destinations")).json()
    assert [item["code"] for item in answer["items"]] == ["a.b", "orders"]
    assert answer["next"] is None


async def test_a_destination_takes_what_is_sent_and_put_resets_the_rest(client: httpx.AsyncClient) -> None:
    fields = {"retention_days": 3, "store_rate": 2.5, "max_bytes": 100, "paused": True}
    assert (await client.put("/destinations/orders", json=fields)).json() == DESTINATION | fields
    assert (await client.put("/destinations/orders", json={"max_bytes": 7})).json() == DESTINATION | {"max_bytes": 7}


async def test_patch_changes_only_what_is_sent(client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={"retention_days": 3, "paused": True})
    answer = await client.patch("/destinations/orders", json={"paused": False})
    assert answer.json() == DESTINATION | {"retention_days": 3}
    assert (await client.patch("/destinations/orders", json={})).json() == DESTINATION | {"retention_days": 3}
    problem(await client.patch("/destinations/nowhere", json={"paused": True}), 404)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("nonsense", 1), ("transport", "kafka"), ("ordering", "key"), ("ordering", "strict"), ("cluster", "x")),
        *(("retention_days", 0), ("retention_days", 3651), ("retention_days", "x"), ("retention_days", 1.5)),
        *(
            ("store_rate", 0),
            ("store_rate", -1),
            ("max_bytes", 0),
            ("max_bytes", 16 * 2**20 + 1),
            ("paused", "perhaps"),
        ),
        *(("code", "other"), ("code", "no way"), ("code", ""), ("code", None)),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.usefixtures("orders")
async def test_an_impossible_field_of_a_destination_is_a_422(
    client: httpx.AsyncClient, method: str, field: str, value: object
) -> None:
    problem(await client.request(method, "/destinations/orders", json={field: value}), 422, field)
    assert (await client.get("/destinations/orders")).json() == DESTINATION


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
@pytest.mark.usefixtures("orders")
async def test_a_number_without_end_is_refused(client: httpx.AsyncClient, number: str) -> None:
    headers = {"content-type": "application/json"}
    content = f'{{"store_rate": {number}}}'
    problem(await client.put("/destinations/orders", content=content, headers=headers), 422, "store_rate")
    problem(await client.patch("/destinations/orders", content=content, headers=headers), 422, "store_rate")
    content = f'{{"url": "{URL}", "rate": {number}}}'
    problem(await client.put(BILLING, content=content, headers=headers), 422, "rate")
    content = f'{{"filter": {{}}, "rate": {number}}}'
    problem(await client.post("/resends", content=content, headers=headers), 422, "rate")
    problem(await client.put("/rates", content=f'{{"receiver": {number}}}', headers=headers), 422, "receiver")


@pytest.mark.parametrize("code", ["no%20way", ".x", "-x", "%C3%A9", "x" * 129])
async def test_an_impossible_code_is_a_422(client: httpx.AsyncClient, code: str) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        problem(await client.request(method, f"/destinations/{code}", json={}), 422, "code")


@pytest.mark.usefixtures("orders")
async def test_a_destination_is_removed_once_it_is_empty(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    problem(await client.delete("/destinations/orders"), 409)
    await client.delete(BILLING)
    later = message(1, destination="orders", deliver_at=2**42)
    await world.store.compensate([row(later, "", by=Origin.ROAD)])
    await world.clock.advance(1)
    assert (await client.delete("/destinations/orders")).status_code == 204
    for method in ("GET", "DELETE"):
        problem(await client.request(method, "/destinations/orders"), 404)
    problem(await client.get("/destinations/orders/subscriptions"), 404)
    assert await world.rows() == []


async def test_a_change_of_road_keeps_the_former_one() -> None:
    world = World(MemoryTransport("kafka"))
    direct, kafka = TransportName.DIRECT, TransportName.KAFKA
    until = world.clock.now() + FORMER_KEPT

    def former() -> tuple[FormerRoad, ...]:
        return world.registry.destination("orders").former

    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await made(client)
        assert former() == ()
        assert (await client.put("/destinations/orders", json={"transport": "kafka"})).status_code == 200
        assert former() == (FormerRoad(direct, until),)
        await world.clock.advance(60)
        await client.patch("/destinations/orders", json={"paused": True})
        await client.put("/destinations/orders", json={"transport": "kafka"})
        assert former() == (FormerRoad(direct, until),)
        await client.patch("/destinations/orders", json={"transport": "direct"})
        assert former() == (FormerRoad(kafka, until + 60_000),)
    for road in (world.road, *world.brokers):
        assert ("orders", "billing") in (road.lags() or {})


class Choosy(MemoryTransport):
    """A broker that does not let the bus make some queues, or does not answer."""

    def __init__(self) -> None:
        super().__init__("kafka")
        self.refused: set[str] = set()

    async def ensure(self, destination, subscriptions):
        if self.refused & {found.name for found in subscriptions}:
            raise TransportRefused("the queue is there with other settings", hint="delete it")
        await super().ensure(destination, subscriptions)


async def test_what_a_broker_refuses_is_taken_back() -> None:
    kafka = Choosy()
    world = World(kafka)
    kafka.refused = {"billing"}
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        found = problem(await client.put(BILLING, json={"url": URL}), 409)
        assert ("other settings; nothing was changed" in found["detail"], found["hint"]) == (True, "delete it")
        assert (await client.get(BILLING)).status_code == 404
        await client.put("/destinations/orders", json={"transport": "direct"})
        await made(client)
        problem(await client.put("/destinations/orders", json={"transport": "kafka"}), 409)
        assert world.registry.destination("orders").transport is TransportName.DIRECT
        kafka.refused = set()
        assert (await client.put("/destinations/orders", json={"transport": "kafka"})).status_code == 200


async def test_a_broker_that_refused_before_or_is_away_holds_up_no_change() -> None:
    kafka = Choosy()
    world = World(kafka)
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        kafka.unreachable = True
        await made(client)
        kafka.unreachable, kafka.refused = False, {"billing"}
        await world.context.roads.apply(world.registry.catalog)
        assert (await client.patch(BILLING, json={"paused": True})).json()["paused"]


# --- subscriptions -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("orders")
async def test_a_subscription_has_the_defaults_of_the_contract(world: World, client: httpx.AsyncClient) -> None:
    assert await made(client) == SUBSCRIPTION
    assert (await client.get(BILLING)).json() == SUBSCRIPTION
    assert (await client.get("/destinations/orders/subscriptions")).json() == {"items": [SUBSCRIPTION], "next": None}
    assert set(world.road.lags() or {}) == {("orders", "billing")}


@pytest.mark.usefixtures("orders")
async def test_a_subscription_takes_every_field(client: httpx.AsyncClient) -> None:
    fields = {
        "name": "billing",
        "url": "https://example.com/a?b=c",
        "max_concurrency": 3,
        "rate": 0.5,
        "timeout_seconds": 0.25,
        "retry": {"first": "5s", "factor": 3.0, "max": "12h"},
        "retry_max_age": "1d",
        "retry_max_attempts": 7,
        "filter": "body.n > `3`",
        "headers": {"X-Tenant": "a"},
        "paused": True,
        "routing_pattern": "eu.*.shoes",
        "stuck_after": "90s",
    }
    expected = SUBSCRIPTION | fields | {"paused_reason": "paused by a person"}
    assert await made(client, **fields) == expected
    assert (await client.get(BILLING)).json() == expected


BAD_FIELDS: list[tuple[str, object]] = [
    *(
        ("nonsense", 1),
        ("batch", 2),
        ("batch", 0),
        ("on_failure", "park"),
        ("routing_pattern", ""),
        ("routing_pattern", "a..b"),
        ("routing_pattern", "a.b#"),
        ("routing_pattern", "a." * 128 + "a"),
        ("name", "other"),
    ),
    *(("name", "no way"), ("url", ""), ("url", "ftp://example.com/"), ("url", "http://user:secret@example.com/")),
    *(
        ("url", "http://10.0.0.1/"),
        ("url", "http://169.254.169.254/"),
        ("url", "example.com"),
        ("url", "http://[::ffff:10.0.0.1]/"),
    ),
    *(("url", 7), ("url", None), ("max_concurrency", 0), ("max_concurrency", 10_001), ("rate", 0), ("rate", "fast")),
    *(("timeout_seconds", 0), ("timeout_seconds", 0.0001), ("timeout_seconds", 601)),
    *(("retry", []), ("retry", ["soon"]), ("retry", ["9" * 400 + "d"]), ("retry", {"first": "5s"}), ("retry", "5s")),
    *(("retry", {"first": "5s", "factor": 0.5, "max": "1h"}), ("retry", {"first": "1h", "factor": 2, "max": "1m"})),
    *(("retry", ["5s"] * 101), ("retry_max_age", "x"), ("retry_max_age", "4000d"), ("retry_max_attempts", 0)),
    *(
        ("retry_max_attempts", 10**30),
        ("filter", "body."),
        ("filter", "(" * 5000),
        ("filter", 7),
        ("stuck_after", "never"),
    ),
    *(
        ("headers", {"host": "x"}),
        ("headers", {"a b": "x"}),
        ("headers", {"a": "x\r\ny: z"}),
        ("headers", {"bus-key": "x"}),
    ),
    *(("headers", {"accept-encoding": "gzip"}), ("headers", {f"x-{n}": "" for n in range(65)}), ("headers", {"a": 1})),
    *(("secret", "short"), ("secret", "whsec_x"), ("secret", "whsec_" + "A" * 8), ("secret", 7)),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS, ids=range(len(BAD_FIELDS)))
@pytest.mark.usefixtures("orders")
async def test_an_impossible_field_of_a_subscription_is_a_422(
    world: World, client: httpx.AsyncClient, field: str, value: object
) -> None:
    fields = {"url": URL} | {field: value}
    found = problem(await client.put(BILLING, json=fields), 422)
    assert found["field"].split(".")[0] == field
    assert "[" not in found["field"]
    problem(await client.get(BILLING), 404)
    assert world.road.lags() == {}
    await made(client)
    found = problem(await client.patch(BILLING, json={field: value}), 422)
    assert found["field"].split(".")[0] == field
    assert (await client.get(BILLING)).json() == SUBSCRIPTION


async def test_a_rule_that_is_broken_is_said_in_our_words(client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={})
    found = problem(await client.put(BILLING, json={"url": URL, "routing_pattern": "a.b#"}), 422, "routing_pattern")
    assert found["detail"].startswith("routing_pattern: ")
    assert "Value error" not in found["detail"]


@pytest.mark.usefixtures("orders")
async def test_a_url_is_needed(client: httpx.AsyncClient) -> None:
    problem(await client.put(BILLING, json={}), 422, "url")


async def test_a_subscription_needs_its_destination(client: httpx.AsyncClient) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        problem(await client.request(method, BILLING, json={"url": URL}), 404)
    problem(await client.post(f"{BILLING}/rotate-secret", json={}), 404)


@pytest.mark.parametrize("name", ["no%20way", ".x", "x" * 65])
@pytest.mark.usefixtures("orders")
async def test_an_impossible_name_is_a_422(client: httpx.AsyncClient, name: str) -> None:
    problem(await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL}), 422, "name")


@pytest.mark.usefixtures("orders")
async def test_patch_keeps_what_is_not_sent(world: World, client: httpx.AsyncClient) -> None:
    first = await made(client, secret="auto", headers={"X-A": "1"}, retry=["7s"], filter="body", rate=3)
    secrets = world.registry.subscription("orders", "billing").secrets
    answer = await client.patch(BILLING, json={"max_concurrency": 2})
    assert answer.json() == first | {"max_concurrency": 2, "secret": "set"}
    assert world.registry.subscription("orders", "billing").secrets == secrets
    answer = await client.patch(
        BILLING, json={"filter": None, "rate": None, "retry": {"first": "1s", "factor": 2, "max": "1m"}}
    )
    assert answer.json()["filter"] is None
    assert answer.json()["retry"] == {"first": "1s", "factor": 2.0, "max": "1m"}
    assert answer.json()["headers"] == {"X-A": "1"}


@pytest.mark.usefixtures("orders")
async def test_patch_keeps_who_paused_and_when_it_was_made(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    created_at = world.registry.subscription("orders", "billing").created_at
    await world.registry.pause(("orders", "billing"), "the subscriber answered 410 Gone")
    await world.clock.advance(60)
    answer = (await client.patch(BILLING, json={"max_concurrency": 2})).json()
    assert (answer["paused"], answer["paused_reason"]) == (True, "the subscriber answered 410 Gone")
    answer = (await client.patch(BILLING, json={"paused": False})).json()
    assert (answer["paused"], answer["paused_reason"]) == (False, "")
    answer = (await client.patch(BILLING, json={"paused": True})).json()
    assert answer["paused_reason"] == "paused by a person"
    assert world.registry.subscription("orders", "billing").created_at == created_at


@pytest.mark.usefixtures("orders")
async def test_a_secret_is_shown_once_when_it_was_made(world: World, client: httpx.AsyncClient) -> None:
    first = await made(client, secret="auto")
    assert first["secret"].startswith("whsec_")
    assert world.registry.subscription("orders", "billing").secrets == (Secret(first["secret"]),)
    assert (await client.get(BILLING)).json()["secret"] == "set"
    assert (await made(client, secret="auto"))["secret"] == "set"
    assert world.registry.subscription("orders", "billing").secrets == (Secret(first["secret"]),)
    given = "whsec_" + "A" * 32
    assert (await made(client, secret=given))["secret"] == "set"
    assert world.registry.subscription("orders", "billing").secrets == (Secret(given),)
    assert (await client.patch(BILLING, json={"secret": None})).json()["secret"] is None
    assert world.registry.subscription("orders", "billing").secrets == ()


@pytest.mark.usefixtures("orders")
async def test_a_rotation_lets_both_sign_until_the_overlap_is_over(world: World, client: httpx.AsyncClient) -> None:
    old = (await made(client, secret="auto"))["secret"]
    answer = await client.post(f"{BILLING}/rotate-secret", json={"overlap": "1h"})
    assert answer.status_code == 200
    new = answer.json()["secret"]
    stored = world.registry.subscription("orders", "billing")
    assert stored.signing_secrets(world.clock.now() + 3_599_999) == [new, old]
    assert stored.signing_secrets(world.clock.now() + 3_600_000) == [new]
    await client.patch(BILLING, json={"max_concurrency": 3})
    assert world.registry.subscription("orders", "billing").secrets == stored.secrets
    third = (await client.post(f"{BILLING}/rotate-secret", json={})).json()["secret"]
    stored = world.registry.subscription("orders", "billing")
    assert stored.signing_secrets(world.clock.now() + 86_399_999) == [third, new]
    problem(await client.post(f"{BILLING}/rotate-secret", json={"overlap": "soon"}), 422, "overlap")
    problem(await client.post(f"{BILLING}/rotate-secret", json={"nonsense": 1}), 422, "nonsense")
    problem(await client.post("/destinations/orders/subscriptions/nobody/rotate-secret", json={}), 404)


@pytest.mark.usefixtures("orders")
async def test_a_rotation_makes_the_first_secret_as_well(client: httpx.AsyncClient) -> None:
    await made(client)
    assert (await client.post(f"{BILLING}/rotate-secret", json={})).json()["secret"].startswith("whsec_")


@pytest.mark.usefixtures("orders")
async def test_removing_a_subscription_cancels_what_is_open(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    states = [Status.PENDING, Status.RETRYING, Status.DELIVERED, Status.DEAD]
    sent = await world.written(4, *states)
    await world.clock.advance(1)
    assert (await client.delete(BILLING)).status_code == 204
    found = [(await world.delivery(one.id)) for one in sent]
    assert [one.status for one in found] == [Status.CANCELED, Status.CANCELED, Status.DELIVERED, Status.DEAD]
    assert found[0].reason == "subscription removed"
    assert await world.rows() == []
    assert world.road.lags() == {}
    for method in ("GET", "DELETE"):
        problem(await client.request(method, BILLING), 404)


@pytest.mark.usefixtures("orders")
async def test_a_subscription_that_is_made_again_meanwhile_keeps_its_deliveries(
    world: World, client: httpx.AsyncClient
) -> None:
    await made(client)
    (old,) = await world.written(1, Status.RETRYING)
    await world.clock.advance(1)
    new = message(1_500, expected=("billing",))
    plain = world.store.cancel

    async def slowly(*of: Any) -> int:
        await world.clock.advance(1)
        await made(client)
        await world.store.write([new, outcome(new, "billing", Status.RETRYING)])
        return await plain(*of)

    world.store.cancel = slowly
    assert (await client.delete(BILLING)).status_code == 204
    assert (await world.delivery(old.id)).status is Status.CANCELED
    assert (await world.delivery(new.id)).status is Status.RETRYING
    assert [found.message_id for found in await world.rows()] == [new.id]


@pytest.mark.parametrize("content", [b"{", b"", b"[1", b"\xff"])
@pytest.mark.usefixtures("orders")
async def test_what_is_no_json_is_a_400(client: httpx.AsyncClient, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for method in ("PUT", "PATCH"):
        answer = await client.request(method, "/destinations/orders", content=content, headers=headers)
        problem(answer, 422 if content == b"" else 400)


@pytest.mark.parametrize("content", [b"[]", b"1", b"null", b'"x"'])
@pytest.mark.usefixtures("orders")
async def test_what_is_no_object_is_a_422(client: httpx.AsyncClient, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for method in ("PUT", "PATCH"):
        problem(await client.request(method, "/destinations/orders", content=content, headers=headers), 422)


async def test_what_is_not_there_and_what_is_not_done_there(client: httpx.AsyncClient) -> None:
    problem(await client.get("/nothing"), 404)
    answer = await client.post("/destinations/orders", json={})
    problem(answer, 405)
    assert set(answer.headers["allow"].split(", ")) >= {"GET"}


@pytest.mark.usefixtures("orders")
async def test_of_two_changes_at_once_none_is_lost_unsaid(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    known = world.registry.subscription("orders", "billing")
    await world.registry.pause(("orders", "billing"), "410")
    world.registry.catalog.subscriptions["orders", "billing"] = known
    problem(await client.patch(BILLING, json={"max_concurrency": 2}), 409)


@pytest.mark.usefixtures("orders")
async def test_a_store_that_is_down_is_a_503_with_when_to_come_again(world: World, client: httpx.AsyncClient) -> None:
    world.store.down = True
    answer = await put(client)
    problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
    assert (await client.get("/destinations/orders")).status_code == 200


async def test_what_is_configured_is_there_after_a_restart(world: World) -> None:
    async with world.client() as client:
        await client.put("/destinations/orders", json={"retention_days": 3})
        await made(client, rate=2)
    world.restart()
    await world.registry.load()
    async with world.client() as client:
        assert (await client.get(BILLING)).json() == SUBSCRIPTION | {"rate": 2.0}
        await made(client)
