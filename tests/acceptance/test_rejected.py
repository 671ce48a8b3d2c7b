"""A message that is refused after ``send()`` returned is kept with its producer, and seen by who looks at the bus."""

from __future__ import annotations

import json
from pathlib import Path

from bus import Bus
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.waiting import wait_until


def test_a_message_for_nobody_is_kept_and_told_with_its_source(shared_bus: BusProcess, tmp_path: Path) -> None:
    with Bus(shared_bus.url, spool=tmp_path / "spool", source="shop") as producer:
        producer.send("order.canceld", {"seq": 1})
        assert producer.flush(60)
        assert producer.rejected == 1
    listed = json.loads(run_bus("spool", "ls", tmp_path / "spool", "--json").stdout)["items"]
    assert [(one["lane"], one["records"]) for item in listed for one in item["consumers"]] == [("rejected", 1)]

    def told() -> list[str]:
        alarms = shared_bus.admin.call("GET", "/api/v1/overview").raise_for_status().json()["alarms"]
        return [alarm["what"] for alarm in alarms if "order.canceld" in alarm["what"]]

    wait_until(lambda: told() and "shop" in told()[0], within=30, what="an alarm with its source")
