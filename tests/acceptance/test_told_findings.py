"""Findings of the pipeline become incidents with notifications, and end once they are cleared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.domain.times import format_time
from tests.harness.alarm_channels import AlarmChannels
from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until

WITHIN = 60.0
AT = format_time(1_769_860_800_000)
OUT = {"destination": "orders", "subscription": "", "metric": "volume", "since": AT}
SHORT = {"destination": "orders", "subscription": "shop", "missing": 3, "contradicted": 0, "since": AT, "until": AT}


@pytest.fixture
def channels() -> Iterator[AlarmChannels]:
    with AlarmChannels() as made:
        yield made


@pytest.fixture
def bus(tmp_path: Path, channels: AlarmChannels) -> Iterator[BusProcess]:
    config = tmp_path / "bus.toml"
    config.write_text(channels.config("ops"))
    with BusProcess(tmp_path / "data", config=config) as made:
        yield made


def tell(bus: BusProcess, kind: str, **body: Any) -> None:
    answer = bus.admin.call("PUT", f"/api/v1/findings/{kind}", json=body)
    assert answer.status_code == 200, answer.text


def states(bus: BusProcess) -> dict[str, tuple[str, str]]:
    found = bus.admin.call("GET", "/api/v1/alarms").json()["items"]
    return {one["cause"]: (one["state"], one["severity"]) for one in found}


def test_what_is_told_is_an_incident_until_it_is_cleared(bus: BusProcess, channels: AlarmChannels) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", "http://127.0.0.1:9/x")
    tell(bus, "norms", until=AT, count=1, items=[{**OUT, "value": 12, "norm": 100, "low": 70}])
    tell(bus, "proof", checked=AT, missing=3, contradicted=0, items=[SHORT])
    opened = {"destination:orders": ("open", "warning"), "proof": ("open", "critical")}
    wait_until(lambda: states(bus) == opened, within=WITHIN, what="both are open", state=lambda: states(bus))
    tell(bus, "norms", until=AT, count=0, items=[])
    tell(bus, "proof", checked=AT, missing=0, contradicted=0, items=[])
    closed = {cause: ("closed", severity) for cause, (_, severity) in opened.items()}
    wait_until(lambda: states(bus) == closed, within=WITHIN, what="both are over", state=lambda: states(bus))
    wait_until(
        lambda: len(channels.titles("ops")) == 4, within=WITHIN, what="people are told", state=lambda: channels.told
    )
    assert sum("Pier over after" in title for title in channels.titles("ops")) == 2
