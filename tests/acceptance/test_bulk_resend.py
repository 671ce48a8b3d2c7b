"""The bus dies in the middle of a bulk resend of some hundreds and goes on: it balances, and little repeats."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SENT = 1_500
CONCURRENCY = 16
KILLS = 2
# Of each life what was in flight and not yet on disk may repeat: requests, and outcomes that waited to be written.
WINDOW = 2 * CONCURRENCY


def job_of(bus: BusProcess, job_id: str) -> dict[str, Any]:
    return bus.admin.call("GET", f"/api/v1/resends/{job_id}").raise_for_status().json()


def send_all(bus: BusProcess) -> set[str]:
    """Send in batches and return the ids."""
    ids: set[str] = set()
    for start in range(0, SENT, 500):
        lines = [json.dumps({"destination": "orders", "body": {"seq": start + number}}) for number in range(500)]
        answer = bus.admin.call(
            "POST", "/v1/messages", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
        )
        ids |= {result["id"] for result in answer.raise_for_status().json()["results"]}
    return ids


def test_a_bulk_resend_survives_kills(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"), max_concurrency=CONCURRENCY)
    ids = send_all(bus)
    assert bus.admin.wait_drained("orders", ids, within=120) == {"delivered": SENT}
    before = Counter(call.id for call in subscriber.calls("/shop"))
    assert before == dict.fromkeys(ids, 1)

    body = {"filter": {"destination": "orders", "status": "delivered"}, "dry_run": True}
    shown = bus.admin.call("POST", "/api/v1/resends", json=body).raise_for_status().json()
    assert (shown["count"], shown["complete"]) == (SENT, True)
    body = {"filter": shown["filter"], "rate": 200, "reason": "the shop lost its orders"}
    job_id = bus.admin.call("POST", "/api/v1/resends", json=body).raise_for_status().json()["id"]

    def delivered(at_least: int) -> bool:
        job = job_of(bus, job_id)
        assert job["balanced"], job
        assert job["state"] != "done", "the kill comes too late"
        return bool(job["counts"]["delivered"] >= at_least)

    for kill in range(1, KILLS + 1):
        wait_until(lambda goal=kill * 400: delivered(goal), within=60, what=f"{kill * 400} were delivered again")
        bus.kill()
        bus.start()

    def state() -> dict[str, Any]:
        return job_of(bus, job_id)

    wait_until(lambda: state()["state"] == "done", within=120, what="the job is done", state=state)
    counts = state()["counts"]
    assert counts["selected"] == SENT == counts["delivered"] + counts["failed"] + counts["skipped"] + counts["missing"]
    assert counts["delivered"] == SENT, counts
    calls = Counter(call.id for call in subscriber.calls("/shop"))
    calls.subtract(before)
    assert set(calls) == ids
    assert min(calls.values()) == 1
    repeated = sum(calls.values()) - SENT
    print(json.dumps({"proof": "bulk resend", "messages": SENT, "kills": KILLS, "repeated": repeated}))
    assert repeated <= KILLS * WINDOW
    result = run_bus("resend", "--pause", job_id, env={"BUS_URL": bus.url})
    assert (result.returncode, "is done" in result.stderr) == (1, True)
