"""Retries that were taken out of the store by hand are found, exactly these, and the repair delivers them."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.jobs import WITHIN, minute_is_over, pipeline, states
from tests.harness.subscribers import SubscriberProcess
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


@pytest.mark.timeout(3 * WITHIN)
def test_what_was_removed_by_hand_is_found_and_repaired(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    subscriber.configure("/mail=fail:1")
    bus.admin.subscription("orders", "mail", subscriber.url("/mail"), retry=["6h"])
    ids = [bus.admin.send("orders", json.dumps({"seq": seq}).encode()).json()["id"] for seq in range(SENT)]
    whole = Counter({("shop", "delivered"): SENT, ("mail", "retrying"): SENT})
    wait_until(
        lambda: states(bus.admin, ids) == whole, within=60, what="all is tried", state=lambda: states(bus.admin, ids)
    )
    assert bus.stop() == 0
    lost = ids[3::6]
    lose(bus.data, lost)
    bus.start()
    subscriber.configure("/mail=fail:0")
    wait_until(lambda: minute_is_over(ids), within=90, what="the messages' minute is over")

    lake = tmp_path / "lake"
    rolled = pipeline("rollup", "--events", bus.data / "events", "--lake", lake, "--once")
    assert rolled.returncode == 0, rolled.stderr
    answer = pipeline(
        *("reconcile", "--lake", lake, "--store", f"sqlite:///{bus.data / 'store'}", "--allowance", "1s"),
        *("--complete", "--report", tmp_path / "proof.html", "--repair", "--url", bus.url, "--json"),
    )
    assert answer.returncode == 0, answer.stderr
    proof: dict[str, Any] = json.loads(answer.stdout)
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
