"""A subscriber breaks, its failures are one group, and once it is mended the group is resent."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SENT = 3  # fewer than open the breaker


def groups(bus: BusProcess) -> list[dict[str, Any]]:
    """Return what ``bus failures --json`` says."""
    result = run_bus("failures", "--json", env={"BUS_URL": bus.url})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["items"]


def test_a_group_of_failures_is_mended(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", f"http://127.0.0.1:{free_port()}/", retry_max_attempts=1)
    sent = [bus.admin.send("orders", b"{}").raise_for_status().json()["id"] for _ in range(SENT)]

    def dead() -> bool:
        return [group["deliveries"] for group in groups(bus)] == [{"dead": SENT}]

    wait_until(dead, within=60, what="one group of dead deliveries", state=lambda: groups(bus))
    (group,) = groups(bus)
    assert group["signature"] == "connection refused by <address>"
    assert group["sample"] in sent

    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    chosen = ["--destination", "orders", "--subscription", "shop", "--signature", group["signature"]]
    result = run_bus("resend", *chosen, "--from", "1h", "--to", "0s", env={"BUS_URL": bus.url}, within=120)
    assert result.returncode == 0, result.stderr
    assert f"{SENT} delivered" in result.stdout
    assert {call.id for call in subscriber.calls("/shop")} == set(sent)
    assert groups(bus) == []
