"""Leases of producers that send alone to a strictly ordered destination."""

from __future__ import annotations

import pytest

from bus.domain.ordering.chain import produced_by
from tests.unit.receiver.strict_world import held, receivers


async def test_one_producer_sends_alone_until_it_has_released_the_lease() -> None:
    async with receivers("one") as ((here,), _):
        first = await here.take("shop-1")
        assert (first.status_code, first.json()["owner"]) == (200, "shop-1")
        assert (await here.take("shop-1")).json() == first.json()

        other = await here.take("shop-2")
        assert other.status_code == 409
        assert "shop-1" in other.json()["detail"]
        assert other.json()["hint"]

        assert (await here.release("shop-2")).status_code == 204
        assert (await here.take("shop-2")).status_code == 409
        assert (await here.release("shop-1")).status_code == 204
        assert (await here.release("shop-1")).status_code == 204
        second = await here.take("shop-2")
        assert second.json()["epoch"] > first.json()["epoch"]


async def test_only_messages_of_the_producer_that_has_the_lease_are_accepted() -> None:
    async with receivers("one") as ((here,), groups):
        assert [one["status"] for one in await here.batch(1)] == ["accepted"]
        epoch = (await here.take("shop-1")).json()["epoch"]
        plain, alone = await here.batch(2), await here.batch(3, 4, producer=epoch)
        assert (plain[0]["error"]["status"], plain[0]["error"].get("leader")) == (503, None)
        assert [one["status"] for one in alone] == ["accepted", "accepted"]
        await here.release("shop-1")
        (late,) = await here.batch(5, producer=epoch)
        assert (late["error"]["status"], late["error"]["field"]) == (409, "producer")
        assert [one["status"] for one in await here.batch(6)] == ["accepted"]
        assert held(groups) == [b"1", b"3", b"4", b"6"]


async def test_lines_of_several_producers_are_apart_and_each_ones_are_in_order() -> None:
    async with receivers("one") as ((here,), groups):
        epoch = (await here.take("shop-1")).json()["epoch"]
        body = "\n".join(
            f'{{"destination": "orders", "producer": {producer}, "body": {number}}}'
            for number, producer in enumerate([0, epoch, epoch - 1, epoch, 0])
        )
        async with here.client() as client:
            answer = await client.post("/v1/messages", content=body, headers={"content-type": "application/x-ndjson"})
        assert [one.get("error", {}).get("status") for one in answer.json()["results"]] == [503, None, 409, None, 503]
        assert held(groups) == [b"1", b"3"]


async def test_nobody_has_a_destination_that_is_made_anew() -> None:
    """The SDK takes a lease for ended whose destination is gone, so nobody would release it."""
    async with receivers("one") as ((here,), _):
        epoch = (await here.take("shop-1")).json()["epoch"]
        await here.registry.remove_subscription("orders", "billing")
        await here.registry.remove_destination("orders")
        assert (await here.release("shop-1")).status_code in {404, 422}
        await here.strict()
        await here.clock.advance(1)
        assert [one["status"] for one in await here.batch(1)] == ["accepted"]
        (late,) = await here.batch(2, producer=epoch)
        assert (late["error"]["status"], late["error"]["field"]) == (409, "producer")


async def test_a_lease_that_a_person_gave_up_is_lost_at_once() -> None:
    async with receivers("one") as ((here,), _):
        epoch = (await here.take("shop-1")).json()["epoch"]
        await here.put_chain(produced_by(await here.chain(), ""))
        await here.clock.advance(2)
        (late,) = await here.batch(1, producer=epoch)
        assert late["error"]["status"] == 409
        assert (await here.take("shop-2")).status_code == 200


async def test_a_standby_takes_over_from_a_producer_that_gives_no_sign_of_life() -> None:
    async with receivers("one") as ((here,), groups):
        epoch = (await here.take("shop-1", takeover_after=5)).json()["epoch"]
        await here.clock.advance(3)
        assert (await here.take("shop-1", takeover_after=5, epoch=epoch)).status_code == 200
        await here.clock.advance(4)
        assert (await here.take("shop-2")).status_code == 409
        assert [line["status"] for line in await here.batch(1, producer=epoch)] == ["accepted"]
        await here.clock.advance(4)
        assert (await here.take("shop-2")).status_code == 409, "what it sends is a sign of life"
        await here.clock.advance(1)
        next_epoch = (await here.take("shop-2")).json()["epoch"]
        (late,) = await here.batch(2, producer=epoch)
        assert (late["error"]["status"], late["error"]["field"]) == (409, "producer")
        assert [line["status"] for line in await here.batch(3, producer=next_epoch)] == ["accepted"]
        assert held(groups) == [b"1", b"3"]


async def test_a_producer_that_asks_again_may_change_the_time() -> None:
    async with receivers("one") as ((here,), _):
        first = (await here.take("shop-1")).json()
        assert (await here.take("shop-1", takeover_after=5)).json() == first
        assert (await here.chain()).producer.takeover_after == 5
        assert (await here.take("shop-1", takeover_after=9, epoch=first["epoch"])).json() == first
        await here.clock.advance(8)
        assert (await here.take("shop-2")).status_code == 409
        await here.clock.advance(1)
        assert (await here.take("shop-2")).status_code == 200


async def test_a_lease_that_was_taken_over_cannot_be_renewed() -> None:
    async with receivers("one") as ((here,), _):
        epoch = (await here.take("shop-1", takeover_after=5)).json()["epoch"]
        await here.take("shop-2")
        await here.clock.advance(5)
        assert (await here.take("shop-2")).status_code == 200
        assert (await here.take("shop-1", takeover_after=5, epoch=epoch)).status_code == 409
        await here.release("shop-2")
        gone = await here.take("shop-1", takeover_after=5, epoch=epoch)
        assert (gone.status_code, (await here.chain()).producer.owner) == (409, "")


async def test_a_receiver_that_begins_to_send_waits_for_a_sign_of_life_of_its_own() -> None:
    async with receivers("one", "two") as ((one, two), _):
        await one.take("shop-1", takeover_after=5)
        await one.clock.advance(4)
        await one.chains.leave()
        await one.clock.advance(2)
        leader = two if two.chains.sends("orders") else one
        assert (await leader.take("shop-2")).status_code == 409
        await one.clock.advance(4)
        assert (await leader.take("shop-2")).status_code == 409
        await one.clock.advance(1)
        assert (await leader.take("shop-2")).status_code == 200


@pytest.mark.parametrize("seconds", [1, -1, 3_601, 1e300])
async def test_a_time_for_a_takeover_has_bounds(seconds: float) -> None:
    async with receivers("one") as ((here,), _):
        answer = await here.take("shop-1", takeover_after=seconds)
        assert (answer.status_code, answer.json()["field"]) == (422, "takeover_after")


async def test_a_producer_of_which_nothing_is_known_yet_waits() -> None:
    async with receivers("one") as ((here,), _):
        (early,) = await here.batch(1, producer=(await here.chain()).epoch + 5)
        assert early["error"]["status"] == 503


async def test_another_receiver_says_which_one_to_ask() -> None:
    async with receivers("one", "two") as ((one, two), _):
        for answer in (await two.take("shop-1"), await two.release("shop-1")):
            assert (answer.status_code, answer.json()["leader"]) == (503, one.url)
        (line,) = await two.batch(1)
        assert line["error"]["leader"] == one.url
        assert line["error"]["retry_after"] == 1


async def test_the_lease_outlives_the_receiver_that_gave_it() -> None:
    async with receivers("one", "two") as ((one, two), groups):
        epoch = (await one.take("shop-1")).json()["epoch"]
        await one.chains.leave()
        await one.clock.advance(3)
        leader = two if two.chains.sends("orders") else one
        assert (await leader.take("shop-2")).status_code == 409
        assert [line["status"] for line in await leader.batch(1, producer=epoch)] == ["accepted"]
        assert held(groups) == [b"1"]


async def test_a_coordinator_that_does_not_answer_leaves_it_open() -> None:
    async with receivers("one") as ((here,), _):
        here.store.down = True
        answer = await here.take("shop-1")
        assert answer.status_code == 503
        here.store.down = False
        assert (await here.take("shop-1")).status_code == 200


async def test_where_no_strict_order_is_kept_nobody_is_alone() -> None:
    async with receivers("one") as ((here,), _):
        await here.destination("plain", "billing")
        assert (await here.take("shop-1", "plain")).status_code == 422
        assert (await here.release("shop-1", "plain")).status_code == 422
        (line,) = await here.batch(1, producer=7, code="plain")
        assert (line["error"]["status"], line["error"]["field"]) == (422, "producer")


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/nothing", b'{"owner": "a"}', 404),
        ("POST", "/orders", b"{}", 422),
        ("POST", "/orders", b'{"owner": ""}', 422),
        ("POST", "/orders", b'{"owner": "a/b"}', 422),
        ("POST", "/orders", b"\xff", 422),
        ("POST", "/orders", b"x" * 5000, 413),
        ("GET", "/orders", b"", 405),
        ("POST", "/orders/a", b"", 405),
        ("DELETE", "/orders", b"", 405),
        ("DELETE", "/orders/a/b", b"", 404),
        ("DELETE", "/nothing/a", b"", 404),
    ],
)
async def test_what_is_asked_wrongly_is_refused(method: str, path: str, content: bytes, status: int) -> None:
    async with receivers("one") as ((here,), _), here.client() as client:
        assert (await client.request(method, f"/v1/producers{path}", content=content)).status_code == status


async def test_a_key_takes_the_lease_only_of_what_it_may_send_to() -> None:
    async with receivers("one") as ((here,), _), here.client() as client:
        key = await here.keyring.create_key(roles=("producer",), destinations=("other",))
        headers = {"authorization": f"Bearer {key}"}
        answer = await client.post("/v1/producers/orders", json={"owner": "shop-1"}, headers=headers)
        assert answer.status_code == 403
        assert (await here.take("shop-1")).status_code == 401
