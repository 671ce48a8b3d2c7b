"""A poisoned key is seen, and a person decides: one is skipped, another resumed after the subscriber is mended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

BLOCKS = {"retry": ["200ms"], "retry_max_attempts": 2}
WAITS = {"retry": ["1h"]}


def ordering(bus: BusProcess, *arguments: str) -> dict[str, Any]:
    """Return what ``bus ordering ... --json`` says."""
    result = run_bus("ordering", *arguments, "--json", env={"BUS_URL": bus.url})
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def send(bus: BusProcess, key: str, count: int) -> list[str]:
    answers = [bus.admin.send("account.changed", b"{}", bus_key=key).raise_for_status() for _ in range(count)]
    return [answer.json()["id"] for answer in answers]


def held(bus: BusProcess) -> dict[str, dict[str, Any]]:
    """Return what is told of each key that is held up."""
    return {one["key"]: one for one in ordering(bus, "show", "account.changed")["items"]}


def wait_held(bus: BusProcess, **waiting: int) -> None:
    """Wait until exactly these keys are held up, with so many behind each."""

    def is_so() -> bool:
        return {key: one["waiting"] for key, one in held(bus).items()} == waiting

    wait_until(is_so, within=60, what=f"{waiting} wait", state=lambda: held(bus))


def delivered(subscriber: SubscriberProcess, key: str) -> list[str]:
    return [call.id for call in subscriber.calls("/ledger") if call.key == key and call.status == 200]


@pytest.mark.parametrize(("policy", "status"), [(BLOCKS, "dead"), (WAITS, "retrying")])
def test_people_decide_about_keys_that_are_held_up(
    bus: BusProcess, subscriber: SubscriberProcess, policy: dict[str, Any], status: str
) -> None:
    bus.admin.destination("account.changed", ordering="key")
    bus.admin.subscription("account.changed", "ledger", subscriber.url("/ledger"), **policy)
    subscriber.configure("/ledger=fail:1,status:422")
    skipped, resumed = send(bus, "skipped", 3), send(bus, "resumed", 2)
    wait_held(bus, skipped=2, resumed=1)
    told = held(bus)
    assert {one["held_up_by"] for one in told.values()} == {skipped[0], resumed[0]}
    assert {one["status"] for one in told.values()} == {status}
    assert {one["next_attempt_at"] is None for one in told.values()} == {status == "dead"}

    subscriber.configure("/ledger=fail:0")
    assert (
        ordering(bus, "skip", "account.changed", "ledger", "skipped", "--reason", "closed")["message_id"] == skipped[0]
    )
    wait_until(lambda: delivered(subscriber, "skipped") == skipped[1:], within=60, what="the rest arrives in order")
    assert delivered(subscriber, "resumed") == []
    wait_held(bus, resumed=1)

    assert ordering(bus, "resume", "account.changed", "ledger", "resumed")["message_id"] == resumed[0]
    wait_until(lambda: delivered(subscriber, "resumed") == resumed, within=60, what="all arrive in order")
    wait_held(bus)
    counts = bus.admin.wait_drained("account.changed", [*skipped, *resumed], within=30)
    assert counts == {"delivered": 4, "parked": 1}
    (delivery,) = bus.admin.trace(skipped[0])["deliveries"]
    assert (delivery["status"], delivery["reason"]) == ("parked", "set aside by anyone: closed")
    result = run_bus("ordering", "skip", "account.changed", "ledger", "skipped", env={"BUS_URL": bus.url})
    assert result.returncode == 1
    assert "bus ordering show account.changed ledger" in result.stderr
