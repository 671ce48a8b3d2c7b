"""A message's whole way through all roles, on real spools, a real store and real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from bus.bootstrap import RoleServices, load_roles
from bus.cluster.members import Members
from bus.domain.destination import Destination
from bus.domain.lanes import accepted_lane
from bus.domain.subscription import Subscription
from bus.errors import ConfigurationError, SpoolLocked, StoreUnavailable
from bus.registry import Registry
from bus.security.secrets import SecretBox
from tests.integration.roles.roles_world import Answer, Subscriber, running, until, until_async

QUICK = ["50ms"]


def later(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat(timespec="milliseconds")


async def test_a_message_arrives_signed_byte_for_byte_and_is_traced(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        secret = (await bus.subscribe("billing", subscriber.url("/a"), secret="auto"))["secret"]
        await bus.subscribe("mail", subscriber.url("/b"))
        body = json.dumps({"order": 42, "who": "Ä"}).encode()
        message_id = await bus.send(body, bus_biz_id="42", content_type="application/json", bus_header_x_tenant="t")
        trace = await bus.traced(message_id, "delivered", "delivered")
        (call,) = subscriber.at("/a").calls
        assert call.body == body
        assert Webhook(secret).verify(body, call.headers) == {"order": 42, "who": "Ä"}
        assert (call.headers["webhook-id"], call.headers["bus-biz-id"], call.headers["x-tenant"]) == (
            message_id,
            "42",
            "t",
        )
        assert "webhook-signature" not in subscriber.at("/b").calls[0].headers
        (attempt,) = trace["deliveries"][0]["attempts"]
        assert (attempt["n"], attempt["by"], attempt["status_code"]) == (1, "road", 200)
        assert {"connect", "send", "first_byte", "receive"} <= set(attempt["phases"])
        assert trace["completed_at"] >= trace["received_at"] >= trace["sent_at"]
        assert (await bus.client.get(f"/api/v1/messages/{message_id}/body")).content == body


async def test_a_change_that_was_answered_before_the_others_saw_a_process_is_in_force_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the configuration by then, and accepts nothing before it reads it again."""
    join = Members.join

    async def changed_before(members: Members) -> None:
        store = members._documents
        other = Registry(store, SecretBox(None))
        await other.put_destination(Destination(code="orders"))
        await other.put_subscription(Subscription(destination="orders", name="billing", url="http://127.0.0.1:1/"))
        await join(members)

    monkeypatch.setattr(Members, "join", changed_before)
    async with running(tmp_path) as bus:
        trace = await bus.traced(await bus.send(), "retrying")
        assert [one["subscription"] for one in trace["deliveries"]] == ["billing"]


async def test_failures_are_retried_until_they_are_delivered_or_dead(tmp_path: Path, subscriber: Subscriber) -> None:
    subscriber.at("/flaky", Answer(500), Answer(302), Answer(200))
    subscriber.at("/never", Answer(503))
    async with running(tmp_path) as bus:
        await bus.subscribe("flaky", subscriber.url("/flaky"), retry=QUICK)
        await bus.subscribe("never", subscriber.url("/never"), retry=QUICK, retry_max_attempts=3)
        message_id = await bus.send()
        trace = await bus.traced(message_id, "delivered", "dead")
        flaky, never = trace["deliveries"]
        assert [(one["n"], one["by"], one["status_code"]) for one in flaky["attempts"]] == [
            (1, "road", 500),
            (2, "retry", 302),
            (3, "retry", 200),
        ]
        assert never["reason"] == "HTTP 503; retries exhausted after 3"
        assert [call.headers["bus-attempt"] for call in subscriber.at("/never").calls] == ["1", "2", "3"]
        assert trace["status"] == "dead"


async def test_what_died_of_a_refusal_at_once_is_delivered_when_it_is_resent(
    tmp_path: Path, subscriber: Subscriber
) -> None:
    subscriber.at("/strict", Answer(422), Answer(200))
    async with running(tmp_path) as bus:
        await bus.subscribe("strict", subscriber.url("/strict"), retry=QUICK, dead_on=[422])
        message_id = await bus.send()
        (strict,) = (await bus.traced(message_id, "dead"))["deliveries"]
        assert (strict["reason"], strict["attempts_made"], strict["held"]) == (
            "HTTP 422; not tried again, as the subscription says",
            1,
            None,
        )
        await bus.api("POST", f"/messages/{message_id}/resend", {"reason": "mended"}, status=202)
        (strict,) = (await bus.traced(message_id, "delivered"))["deliveries"]
        assert [(one["n"], one["by"], one["status_code"]) for one in strict["attempts"]] == [
            (1, "road", 422),
            (2, "resend", 200),
        ]


async def test_many_messages_reach_everybody_once_with_no_more_than_the_permits(
    tmp_path: Path, subscriber: Subscriber
) -> None:
    failing = [Answer(500 if number % 3 == 0 else 200, takes=0.002) for number in range(400)]
    subscriber.at("/failing", *failing, Answer(takes=0.002))
    subscriber.at("/fast", Answer(takes=0.002))
    async with running(tmp_path) as bus:
        await bus.subscribe("fast", subscriber.url("/fast"), max_concurrency=5)
        await bus.subscribe("failing", subscriber.url("/failing"), max_concurrency=3, retry=QUICK)
        lines = [json.dumps({"destination": "orders", "body": {"n": n}}) for n in range(600)]
        ids: list[str] = []
        for start in range(0, 600, 100):
            answer = await bus.client.post(
                "/v1/messages",
                content="\n".join(lines[start : start + 100]),
                headers={"content-type": "application/x-ndjson"},
            )
            ids += [result["id"] for result in answer.json()["results"]]

        async def delivered() -> bool:
            query = {"destination": "orders", "status": "delivered", "limit": 1000}
            return len((await bus.client.get("/api/v1/messages", params=query)).json()["items"]) == 600

        await until_async(delivered, "all are delivered")
        assert Counter(subscriber.at("/fast").ids) == Counter(ids)
        assert set(subscriber.at("/failing").ids) == set(ids)
        assert len(subscriber.at("/failing").ids) == 600 + 134
        assert (subscriber.at("/fast").peak, subscriber.at("/failing").peak) == (5, 3)


async def test_a_hung_subscriber_holds_up_nobody_else(tmp_path: Path, subscriber: Subscriber) -> None:
    release = asyncio.Event()
    subscriber.at("/hung", Answer(hold=release))
    async with running(tmp_path) as bus:
        await bus.subscribe("hung", subscriber.url("/hung"))
        await bus.subscribe("well", subscriber.url("/well"))
        ids = [await bus.send() for _ in range(50)]
        await until(lambda: len(subscriber.at("/well").calls) == 50, "the other has all")
        assert subscriber.at("/hung").in_flight == 16
        release.set()
        for message_id in ids:
            await bus.traced(message_id, "delivered", "delivered")


@pytest.mark.parametrize("crash", [False, True])
async def test_what_waited_is_delivered_after_a_restart(tmp_path: Path, subscriber: Subscriber, crash: bool) -> None:
    async with running(tmp_path, crash=crash) as bus:
        await bus.subscribe("billing", subscriber.url("/a"), paused=True)
        await bus.subscribe("retried", subscriber.url("/b"), retry=["100ms"])
        subscriber.at("/b", Answer(500))
        ids = [await bus.send(b"%d" % n) for n in range(20)]
        # Not each of them: the breaker opens at so many failures, whomever they were of.
        await until(lambda: len(subscriber.at("/b").ids) >= 20, "attempts fail")
    subscriber.at("/b", Answer(200))
    async with running(tmp_path) as bus:
        repeated = await bus.client.post("/v1/messages/orders", content=b"0", headers={"bus-message-id": ids[0]})
        assert repeated.json() == {"id": ids[0], "duplicate": True}
        await bus.api("PATCH", "/destinations/orders/subscriptions/billing", {"paused": False})
        for message_id in ids:
            await bus.traced(message_id, "delivered", "delivered")
    assert Counter(subscriber.at("/a").ids) == Counter(ids)
    assert sorted(subscriber.at("/a").bodies) == sorted(b"%d" % n for n in range(20))


async def test_a_stop_finishes_what_is_in_flight(tmp_path: Path, subscriber: Subscriber) -> None:
    release = asyncio.Event()
    subscriber.at("/a", Answer(hold=release))
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"), max_concurrency=2)
        ids = [await bus.send() for _ in range(5)]
        await until(lambda: subscriber.at("/a").in_flight == 2, "two are in flight")
        asyncio.get_running_loop().call_later(0.1, release.set)
    assert len(subscriber.at("/a").calls) == 2
    async with running(tmp_path) as bus:
        for message_id in ids:
            await bus.traced(message_id, "delivered")
    assert Counter(subscriber.at("/a").ids) == Counter(ids)


async def test_410_pauses_and_nothing_else_stops(tmp_path: Path, subscriber: Subscriber) -> None:
    subscriber.at("/gone", Answer(410))
    async with running(tmp_path) as bus:
        await bus.subscribe("gone", subscriber.url("/gone"), retry=QUICK)
        await bus.subscribe("well", subscriber.url("/well"))
        ids = [await bus.send() for _ in range(40)]
        path = "/destinations/orders/subscriptions/gone"

        async def paused() -> bool:
            found = await bus.api("GET", path)
            return found["paused"] and found["paused_reason"] == "the subscriber answered 410 Gone"

        await until_async(paused, "it is paused")
        await until(lambda: len(subscriber.at("/well").calls) == 40, "the other has all")
        subscriber.at("/gone", Answer(200))
        await bus.api("PATCH", path, {"paused": False})
        for message_id in ids:
            await bus.traced(message_id, "delivered", "delivered")


async def test_removing_a_subscription_with_requests_in_flight_waits_for_nobody(
    tmp_path: Path, subscriber: Subscriber
) -> None:
    release = asyncio.Event()
    subscriber.at("/hung", Answer(410, hold=release))
    async with running(tmp_path) as bus:
        await bus.subscribe("hung", subscriber.url("/hung"), timeout_seconds=60)
        await bus.subscribe("well", subscriber.url("/well"))
        ids = [await bus.send() for _ in range(30)]
        await until(lambda: subscriber.at("/hung").in_flight == 16, "its permits are in use")
        for message_id in ids:
            await bus.traced(message_id, "pending", "delivered")
        begun = time.monotonic()
        await bus.api("DELETE", "/destinations/orders/subscriptions/hung", status=204)
        assert time.monotonic() - begun < 30
        for message_id in ids:
            trace = await bus.traced(message_id, "canceled", "delivered")
            assert trace["deliveries"][0]["reason"] == "subscription removed"
        release.set()
        await bus.api("PATCH", "/destinations/orders/subscriptions/well", {"max_concurrency": 2})
        await bus.send()
        await until(lambda: len(subscriber.at("/well").calls) == 31, "the others go on")
        assert len(subscriber.at("/hung").calls) == 16
        await bus.api("GET", "/destinations/orders/subscriptions/hung", status=404)


async def test_a_message_for_later_arrives_at_its_time(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))
        due = later(seconds=1)
        message_id = await bus.send(bus_deliver_at=due)
        trace = await bus.traced(message_id, "pending")
        assert trace["deliveries"][0]["reason"] == "scheduled"
        trace = await bus.traced(message_id, "delivered")
        assert trace["deliveries"][0]["attempts"][0]["started_at"] >= due[:23]


async def test_a_paused_destination_holds(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))
        await bus.api("PATCH", "/destinations/orders", {"paused": True})
        message_id = await bus.send()
        trace = await bus.traced(message_id, "pending")
        assert trace["deliveries"][0]["reason"] == "paused"
        assert subscriber.at("/a").calls == []
        await bus.api("PATCH", "/destinations/orders", {"paused": False})
        await bus.traced(message_id, "delivered")


async def test_a_message_lost_from_the_transport_is_found_and_delivered(
    tmp_path: Path, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the queue of one subscription loses what it holds."""
    monkeypatch.setattr("compensator.stuck._INTERVAL", 0.1)
    monkeypatch.setattr("compensator.stuck._SLACK", 0)
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"), paused=True, stuck_after="1s")
        lost = await bus.send(b"lost")
        await bus.traced(lost, "pending")
        queue = bus.context.spools["direct"]
        await until(lambda: queue.stats().records == 1, "it is on the transport")
        queue.ack("billing", await queue.claim("billing", 1, accepted_lane("orders")))
        await bus.api("PATCH", "/destinations/orders/subscriptions/billing", {"paused": False})
        kept = await bus.send(b"kept")
        await bus.traced(kept, "delivered")
        trace = await bus.traced(lost, "delivered")
        assert trace["deliveries"][0]["attempts"][0]["by"] == "stuck"
        assert sorted(subscriber.at("/a").bodies) == [b"kept", b"lost"]


async def test_rates_hold_back_the_store_and_not_the_messages(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))
        await bus.api("PUT", "/rates", {"receiver": 0.01, "dispatcher": 0.01})
        ids = [await bus.send() for _ in range(30)]
        await until(lambda: len(subscriber.at("/a").calls) == 30, "all are delivered")
        assert sum([await bus.trace(message_id) is None for message_id in ids]) >= 25
        await bus.api("PUT", "/rates", {})
        for message_id in ids:
            await bus.traced(message_id, "delivered")


async def test_without_a_store_messages_flow_and_its_return_completes_the_traces(
    tmp_path: Path, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))

        async def down(*_: object, **__: object) -> None:
            raise StoreUnavailable("down")

        with monkeypatch.context() as patch:
            for name in ("write", "trace", "finished", "lease", "due", "unsettled", "compensate"):
                patch.setattr(bus.context.store, name, down)
            ids = [await bus.send(b"%d" % n) for n in range(20)]
            await until(lambda: len(subscriber.at("/a").calls) == 20, "all are delivered")

            async def degraded() -> bool:
                return (await bus.client.get("/readyz")).json()["status"] == "degraded"

            await until_async(degraded, "it says that it is degraded")
            assert (await bus.client.get("/readyz")).status_code == 200
            metrics = (await bus.client.get("/metrics")).text
            assert "bus_store_up 0.0" in metrics
            assert 'bus_degraded{part="store"} 1.0' in metrics
            assert (await bus.client.get(f"/api/v1/messages/{ids[0]}")).status_code == 503
        for message_id in ids:
            await bus.traced(message_id, "delivered")
        assert (await bus.client.get("/readyz")).json()["status"] == "ok"

        async def recovered() -> bool:
            return "bus_store_up 1.0" in (await bus.client.get("/metrics")).text

        await until_async(recovered, "the metrics tell it")
        assert len(subscriber.at("/a").calls) == 20


async def test_a_bulk_resend_repairs_a_bad_hour(tmp_path: Path, subscriber: Subscriber) -> None:
    subscriber.at("/a", Answer(500))
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"), retry=QUICK, retry_max_attempts=1)
        ids = [await bus.send(b"%d" % n) for n in range(18)]
        for message_id in ids:
            await bus.traced(message_id, "dead")
        subscriber.at("/a", Answer(200)).calls.clear()
        job_id = (await bus.api("POST", "/resends", {"filter": {"status": "dead"}}, 202))["id"]

        async def done() -> dict | None:
            found = await bus.api("GET", f"/resends/{job_id}")
            return found if found["state"] == "done" else None

        job = await until_async(done, "the job is done")
        assert job["counts"] == {
            "selected": 18,
            "waiting": 0,
            "delivered": 18,
            "discarded": 0,
            "failed": 0,
            "skipped": 0,
            "missing": 0,
            "canceled": 0,
        }
        assert Counter(subscriber.at("/a").ids) == Counter(ids)
        trace = await bus.traced(ids[0], "delivered")
        assert [one["by"] for one in trace["deliveries"][0]["attempts"]] == ["road", "resend"]


async def test_keys_close_the_bus_and_paths_are_exact(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))
        foreign = {"host": "evil.example"}
        assert (await bus.client.get("/api/v1/destinations", headers=foreign)).status_code == 403
        assert (await bus.client.post("/v1/messages/orders", headers=foreign)).status_code == 403
        for path in ("/v1/messagesXorders", "/v1/messagesorders", "/apiX", "/v1"):
            answer = await bus.client.post(path, content=b"x")
            assert answer.status_code == 404, path
            assert answer.headers["content-type"] == "application/problem+json"
        key = (await bus.api("POST", "/keys", {"role": "admin"}, 201))["key"]
        assert (await bus.client.post("/v1/messages/orders")).status_code == 401
        assert (await bus.client.get("/api/v1/health")).status_code == 401
        assert (await bus.client.get("/healthz")).status_code == 200
        bus.client.headers["authorization"] = f"Bearer {key}"
        await bus.traced(await bus.send(), "delivered")


async def test_metrics_have_the_names_of_the_contract(tmp_path: Path, subscriber: Subscriber) -> None:
    subscriber.at("/a", Answer(500), Answer(200))
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"), retry=QUICK)
        await bus.traced(await bus.send(bus_source="shop"), "delivered")
        text = (await bus.client.get("/metrics")).text
        for line in (
            'bus_messages_accepted_total{destination="orders",source="shop"}',
            'bus_messages_published_total{destination="orders",result="confirmed",transport="direct"}',
            'bus_deliveries_total{destination="orders",status="delivered",subscription="billing"}',
            'bus_delivery_attempt_seconds_count{destination="orders",subscription="billing"}',
            'bus_delivery_latency_seconds_bucket{destination="orders",le="0.1",subscription="billing"}',
            'bus_permits_in_use{subscription="orders/billing"} 0.0',
            'bus_permits_max{subscription="orders/billing"} 16.0',
            'bus_spool_records{consumer="publish",spool="receiver"}',
            'bus_spool_records{consumer="orders/billing",spool="direct"} 0.0',
            'bus_spool_bytes{spool="outcomes"}',
            'bus_spool_oldest_seconds{consumer="store",spool="receiver"}',
            'bus_broker_backlog{cluster="",destination="orders",subscription="billing",transport="direct"}',
            "bus_store_up 1.0",
            'bus_degraded{part="store"} 0.0',
            'bus_breaker_state{subscription="orders/billing"} 0.0',
            "bus_build_info{",
        ):
            assert line in text, line


async def test_metrics_forget_what_is_gone(tmp_path: Path, subscriber: Subscriber) -> None:
    async with running(tmp_path) as bus:
        await bus.subscribe("billing", subscriber.url("/a"))
        offers = bus.introspection.offers
        bus.introspection.offers = offers | RoleServices(conditions={"kafka queues of orders": lambda: "not made yet"})
        text = (await bus.client.get("/metrics")).text
        assert 'bus_breaker_state{subscription="orders/billing"}' in text
        assert 'bus_degraded{part="kafka queues of orders"} 1.0' in text
        bus.introspection.offers = offers
        await bus.api("DELETE", "/destinations/orders/subscriptions/billing", status=204)

        async def forgotten() -> bool:
            found = (await bus.client.get("/metrics")).text
            gone = ("bus_breaker_state{", "bus_permits_max{", "bus_broker_backlog{", "queues of orders")
            return not any(name in found for name in gone)

        await until_async(forgotten, "what is gone is not told")


async def test_a_second_life_beside_the_first_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(SpoolLocked):
            async with running(tmp_path):
                pass


def test_a_role_that_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown role 'nonsense'"):
        load_roles(["admin", "nonsense"])


async def test_a_sample_is_one_signed_post_that_leaves_no_trace(tmp_path: Path, subscriber: Subscriber) -> None:
    subscriber.at("/a", Answer(503))
    async with running(tmp_path) as bus:
        secret = (await bus.subscribe("billing", subscriber.url("/a"), secret="auto", paused=True))["secret"]
        path = "/destinations/orders/subscriptions/billing/sample"
        found = await bus.api("POST", path, {"body": {"order": 42}})
        (call,) = subscriber.at("/a").calls
        assert Webhook(secret).verify(call.body, call.headers) == {"order": 42}
        shown = {name.lower(): value for name, value in found["request"]["headers"]}
        assert {name: shown[name] for name in call.headers} == dict(call.headers)
        assert (call.headers["bus-sample"], call.headers["webhook-id"]) == ("true", found["id"])
        assert (found["response"]["status"], found["delivered"]) == (503, False)
        assert {"connect", "send", "first_byte"} <= set(found["phases"])
        assert await bus.trace(found["id"]) is None
        assert secret not in str(found)
        stats = await bus.api("GET", "/stats")
        assert stats["totals"]["attempts"] == 0
        await bus.api("PATCH", "/destinations/orders/subscriptions/billing", {"paused": False})
        subscriber.at("/a", Answer(200))
        await bus.traced(await bus.send(b"{}"), "delivered")
