"""The statistics equal the messages sent, also after a stop and after a kill."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SENT = 20


def stats(bus: BusProcess, *options: str) -> dict[str, Any]:
    """Return what ``bus stats --json`` says."""
    result = run_bus("stats", "--json", *options, env={"BUS_URL": bus.url})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_statistics_are_what_happened(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "good", subscriber.url("/good"))
    bus.admin.subscription("orders", "bad", "http://127.0.0.1:9/closed", retry=["1h"], retry_max_attempts=1)
    for number in range(SENT):
        bus.admin.send("orders", b'{"seq": %d}' % number, bus_source="shop").raise_for_status()

    def figures() -> dict[str, Any]:
        return {one["subscription"]: one["totals"] for one in stats(bus, "--by", "subscription")["series"]}

    def counted() -> bool:
        found = figures()
        return found.get("good", {}).get("attempts") == SENT and "bad" in found

    wait_until(counted, within=60, what="every delivery is counted", every=0.5, state=figures)
    known = figures()
    assert known["good"]["deliveries"] == {"delivered": SENT}
    assert known["good"]["success_rate"] == 1
    assert 0 < known["good"]["p50_ms"] <= known["good"]["p99_ms"]
    failed = known["bad"]
    assert failed["deliveries"]["dead"] == failed["attempts"] == failed["failed_attempts"] > 0
    assert failed["success_rate"] == 0
    whole = stats(bus, "--by", "source")
    assert whole["complete"]
    assert [(one["source"], one["totals"]["accepted"]) for one in whole["series"]] == [("shop", SENT)]

    assert bus.stop() == 0
    bus.start()
    assert figures()["good"] == known["good"]
    bus.kill()
    bus.start()
    assert figures()["good"] == known["good"]
