"""A backlog that nobody wants any more is dropped: by filter, over kills, and not for the neighbours."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.parts import BROKERS, STORES
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SENT = 1_200
FEW = 8  # fewer failures than open a breaker


def send_all(bus: BusProcess, code: str, count: int, **fields: object) -> list[str]:
    """Send in batches and return the ids."""
    ids: list[str] = []
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        lines = [json.dumps({"destination": code, "body": {"seq": number}, **fields}) for number in numbers]
        answer = bus.admin.call(
            "POST", "/v1/messages", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
        )
        ids += [result["id"] for result in answer.raise_for_status().json()["results"]]
    return ids


def count_of(bus: BusProcess, chosen: dict[str, str]) -> int:
    """Return how many deliveries match a filter."""
    answer = bus.admin.call("POST", "/api/v1/resends", json={"filter": chosen, "dry_run": True})
    return int(answer.raise_for_status().json()["count"])


def counts_of(bus: BusProcess, code: str, name: str, ids: list[str]) -> dict[str, int]:
    """Return how many deliveries of a subscription the store has in each state; wait until it has all of them."""
    found: dict[str, int] = {}

    def are_there() -> bool:
        found.clear()
        for status in ("pending", "retrying", "resend", "delivered", "canceled", "dead", "parked"):
            count = count_of(bus, {"destination": code, "subscription": name, "status": status})
            found.update({status: count} if count else {})
        return sum(found.values()) == len(ids)

    wait_until(are_there, within=60, what="the store has all", state=lambda: found)
    return found


def discard(bus: BusProcess, *arguments: str) -> dict[str, Any]:
    result = run_bus("discard", *arguments, "--json", env={"BUS_URL": bus.url}, within=60)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def waiting_for(bus: BusProcess, code: str) -> int:
    """Return how many messages of a destination wait on a transport."""
    return sum(count for labels, count in bus.admin.backlogs().items() if f'destination="{code}"' in labels)


def arrived(subscriber: SubscriberProcess, path: str) -> set[str]:
    return {call.id for call in subscriber.calls(path)}


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_backlog_is_dropped_and_what_comes_later_arrives(
    shared_bus: BusProcess, shared_subscriber: SubscriberProcess, code: str, ordering: str
) -> None:
    bus, subscriber = shared_bus, shared_subscriber
    bus.admin.destination(code, ordering=ordering)
    for name in ("coupons", "mail"):
        bus.admin.subscription(code, name, subscriber.url(f"/{code}.{name}"), retry=["1h"])
    subscriber.configure(f"/{code}.coupons=fail:1,status:503")
    old = send_all(bus, code, FEW, biz_id="may", key="k")
    kept = send_all(bus, code, FEW, biz_id="june", key="k" if ordering == "key" else "")
    counts_of(bus, code, "coupons", [*old, *kept])
    shown = discard(bus, code, "coupons", "--biz-id", "may", "--dry-run")
    assert shown["count"] == FEW
    ended = discard(bus, code, "coupons", "--biz-id", "may", "--reason", "void", "--yes")
    assert (ended["state"], ended["counts"]["discarded"]) == ("done", FEW)
    tried = arrived(subscriber, f"/{code}.coupons") & set(old)
    failing = {"destination": code, "subscription": "coupons", "status": "retrying", "biz_id": "june"}
    # Of a key the first one alone is tried: one that fails only behind the resend would wait for its hour.
    wait_until(lambda: count_of(bus, failing) == (1 if ordering == "key" else FEW), within=60, what="the others fail")

    subscriber.configure(f"/{code}.coupons=fail:0")
    chosen = {"destination": code, "subscription": "coupons", "status": "retrying"}
    bus.admin.call("POST", "/api/v1/resends", json={"filter": chosen}).raise_for_status()
    later = send_all(bus, code, FEW, key="k")
    wait_until(lambda: arrived(subscriber, f"/{code}.coupons") >= {*kept, *later}, within=60, what="the others arrive")
    assert arrived(subscriber, f"/{code}.coupons") & set(old) == tried
    wait_until(lambda: len(arrived(subscriber, f"/{code}.mail")) == 3 * FEW, within=30, what="the neighbour has all")
    (delivery,) = [one for one in bus.admin.trace(old[0])["deliveries"] if one["subscription"] == "coupons"]
    assert (delivery["status"], delivery["reason"]) == ("canceled", "discarded by anyone: void")
    wait_until(lambda: waiting_for(bus, code) == 0, within=30, what="its queues are empty")

    again = run_bus("resend", "--rerun", ended["id"], env={"BUS_URL": bus.url})
    assert again.returncode == 0, again.stderr
    assert arrived(subscriber, f"/{code}.coupons") >= set(old)


def test_a_discard_survives_kills_and_drops_all(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "coupons", subscriber.url("/coupons"))
    bus.admin.subscription("orders", "mail", subscriber.url("/mail"))
    bus.admin.pause("orders", "coupons", paused=True)
    ids = send_all(bus, "orders", SENT)
    assert counts_of(bus, "orders", "coupons", ids) == {"pending": SENT}
    body = {"filter": {"destination": "orders", "subscription": "coupons"}, "reason": "void"}
    job_id = bus.admin.call("POST", "/api/v1/discards", json=body).raise_for_status().json()["id"]
    bus.kill()
    bus.start()

    def job() -> dict[str, Any]:
        found = bus.admin.call("GET", f"/api/v1/resends/{job_id}").raise_for_status().json()
        assert found["balanced"], found
        return dict(found)

    wait_until(lambda: job()["counts"]["discarded"] >= SENT // 3, within=60, what="some are dropped", state=job)
    bus.kill()
    bus.start()
    wait_until(lambda: job()["state"] == "done", within=60, what="the job is done", state=job)
    assert job()["counts"]["discarded"] == SENT
    assert counts_of(bus, "orders", "coupons", ids) == {"canceled": SENT}
    bus.admin.pause("orders", "coupons", paused=False)
    (new,) = send_all(bus, "orders", 1)
    wait_until(lambda: new in arrived(subscriber, "/coupons"), within=60, what="a new one arrives")
    assert arrived(subscriber, "/coupons") == {new}
    wait_until(lambda: len(arrived(subscriber, "/mail")) == SENT + 1, within=60, what="the neighbour has all")


@pytest.mark.parametrize(
    ("transport", "store"),
    [
        ("rabbitmq", "mongodb"),
        pytest.param("kafka", "sqlite", marks=pytest.mark.proof),
        pytest.param("nsq", "sqlite", marks=pytest.mark.proof),
    ],
)
def test_what_a_broker_and_a_dispatcher_hold_is_dropped_but_for_what_is_under_way(
    subscriber: SubscriberProcess, tmp_path: Path, transport: str, store: str
) -> None:
    with ExitStack() as stack:
        parts = [stack.enter_context(BROKERS[transport](tmp_path / transport))]
        parts.append(stack.enter_context(STORES[store](tmp_path / store)))
        env = {key: value for part in parts for key, value in part.env.items()}
        bus = stack.enter_context(BusProcess(tmp_path / "data", env=env))
        subscriber.configure("/hung=hang:true")
        bus.admin.destination("orders", transport=transport)
        bus.admin.subscription("orders", "coupons", subscriber.url("/hung"), max_concurrency=2, timeout_seconds=6)
        old = send_all(bus, "orders", 300)
        counts_of(bus, "orders", "coupons", old)
        wait_until(lambda: bus.admin.metric("bus_permits_in_use{") >= 2, within=60, what="two are under way")
        assert discard(bus, "orders", "coupons", "--reason", "void", "--yes")["counts"]["discarded"] == 300
        subscriber.configure("/hung=hang:false")
        new = send_all(bus, "orders", 20)
        wait_until(lambda: arrived(subscriber, "/hung") >= set(new), within=90, what="the new ones arrive")
        assert len(arrived(subscriber, "/hung") & set(old)) <= 4
        wait_until(lambda: waiting_for(bus, "orders") == 0, within=60, what="its queues are empty")
