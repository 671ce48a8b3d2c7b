"""The proof of a real bus: what it ended by itself is proven; what was taken out of it is found, and repaired."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bus.domain.tracing.events import Stage
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.jobs import WITHIN, minute_is_over, pipeline, states
from tests.harness.subscribers import SubscriberProcess
from tests.harness.trace_events import blocks, ids, sums, told
from tests.harness.waiting import wait_until

SENT = 16  # fewer failures than open the breaker
LOSE = """
DELETE FROM compensation WHERE message_id = ?;
"""
RECOUNT = "UPDATE lane SET waiting = (SELECT count(*) FROM compensation WHERE lane = number)"


def lose(data: Path, ids: list[str]) -> None:
    """Delete who has the next attempt of these messages, beside the bus's back."""
    connection = sqlite3.connect(data / "store" / "control.db")
    try:
        with connection:
            for each in ids:
                done = connection.execute(LOSE, (bytes.fromhex(each.replace("-", "")),))
                assert done.rowcount == 1, each
            connection.execute(RECOUNT)
    finally:
        connection.close()


def proven(bus: BusProcess, lake: Path, *options: object) -> dict[str, Any]:
    """Roll up what a bus told, and return its proof, with its store as the second witness."""
    rolled = pipeline("rollup", "--events", bus.data / "events", "--lake", lake, "--once")
    assert rolled.returncode == 0, rolled.stderr
    store = f"sqlite:///{bus.data / 'store'}"
    answer = pipeline(
        *("reconcile", "--lake", lake, "--store", store, "--allowance", "1s", "--complete", "--json", *options)
    )
    assert answer.returncode == 0, answer.stderr
    proof: dict[str, Any] = json.loads(answer.stdout)
    return proof


@pytest.mark.proof
@pytest.mark.timeout(3 * WITHIN)
def test_what_was_removed_by_hand_is_found_and_repaired(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    subscriber.configure("/mail=fail:1")
    bus.admin.subscription("orders", "mail", subscriber.url("/mail"), retry=["6h"])
    sent = [bus.admin.send("orders", json.dumps({"seq": seq}).encode()).json()["id"] for seq in range(SENT)]
    whole = Counter({("shop", "delivered"): SENT, ("mail", "retrying"): SENT})
    wait_until(
        lambda: states(bus.admin, sent) == whole, within=60, what="all is tried", state=lambda: states(bus.admin, sent)
    )
    assert bus.stop() == 0
    lost = sent[3::6]
    lose(bus.data, lost)
    bus.start()
    subscriber.configure("/mail=fail:0")
    wait_until(lambda: minute_is_over(sent), within=90, what="the messages' minute is over")

    proof = proven(bus, tmp_path / "lake", "--report", tmp_path / "proof.html", "--repair", "--url", bus.url)
    assert sorted((each["id"], each["subscription"]) for each in proof["missing"]) == [(each, "mail") for each in lost]
    assert {(each["store_status"], each["last_status"]) for each in proof["missing"]} == {("retrying", "retrying")}
    assert proof["hops"]["deliver"]["under_way"] == SENT - len(lost)
    assert (proof["repair"]["counts"]["selected"], proof["repair"]["counts"]["delivered"]) == (len(lost), len(lost))

    got = Counter(call.id for call in subscriber.calls("/mail"))
    assert {each for each, count in got.items() if count == 2} == set(lost)
    repaired = Counter({("mail", "delivered"): len(lost), ("shop", "delivered"): len(lost)})
    assert states(bus.admin, lost) == repaired
    page = (tmp_path / "proof.html").read_text("utf-8")
    assert all(each in page for each in lost)
    assert "http" not in page


@pytest.mark.proof
@pytest.mark.timeout(3 * WITHIN)
def test_what_ends_without_a_dispatcher_or_begins_without_a_receiver_is_proven(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    bus.admin.subscription("orders", "mail", subscriber.url("/mail"), paused=True)
    lines = "".join(f'{{"seq": {seq}}}\n' for seq in range(SENT))
    done = run_bus("send", "orders", "-", "--ndjson", "--json", "--url", bus.url, text=lines)
    assert json.loads(done.stdout)["accepted"] == SENT
    wait_until(lambda: subscriber.count("/shop") == SENT, within=60, what="all but the paused are delivered")
    wait_until(lambda: len(list(bus.admin.messages(destination="orders"))) == SENT, within=60, what="all are stored")
    sent = [found["id"] for found in bus.admin.messages(destination="orders")]
    asked = {"body": {"to": "here"}, "reason": "it went nowhere", "subscriptions": ["shop"]}
    made = bus.admin.call("POST", f"/api/v1/messages/{sent[0]}/edit", json=asked).raise_for_status().json()["id"]
    bus.admin.call("DELETE", "/api/v1/destinations/orders/subscriptions/mail").raise_for_status()
    whole = Counter({("shop", "delivered"): SENT + 1, ("mail", "canceled"): SENT})
    wait_until(lambda: states(bus.admin, [*sent, made]) == whole, within=60, what="all has ended")
    assert bus.stop() == 0

    found = blocks(bus.data)
    assert ids(told(found, Stage.SETTLED, "canceled")) == dict.fromkeys(sent, 1)
    assert ids(told(found, Stage.ACCEPTED)) == ids(told(found, Stage.PUBLISHED)) == dict.fromkeys([*sent, made], 1)
    assert sums(found, "expected", "mail") == sums(found, "canceled", "mail")
    assert sums(found, "expected", "shop") == sums(found, "delivered", "shop")
    wait_until(lambda: minute_is_over([*sent, made]), within=90, what="the messages' minute is over")
    proof = proven(bus, tmp_path / "lake")
    assert proof["verdict"] == "proven"
    assert all(set(hop["verdicts"]) <= {"proven"} for hop in proof["hops"].values()), proof["hops"]
    deliver = proof["hops"]["deliver"]
    assert (deliver["delivered"], deliver["canceled"]) == (SENT + 1, SENT)
