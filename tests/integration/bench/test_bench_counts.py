"""The work that one message costs stays within its limits, so that no feature slows the path in silence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.counts import CLOSED_LOOP, LIMITS, CountedBus, counted_bus
from tests.harness.counts import Counts

MESSAGES = {100: 200, 500: 600, CLOSED_LOOP: 2_000}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBus]:
    with counted_bus(tmp_path_factory.mktemp("counts")) as counted:
        yield counted


@pytest.mark.parametrize("rate", LIMITS, ids=lambda rate: f"{rate} a second" if rate else "closed loop")
def test_a_message_costs_no_more_work_than_its_limit(bus: CountedBus, rate: int) -> None:
    found = bus.count(MESSAGES[rate], rate)
    limits = Counts(**LIMITS[rate])._asdict()
    assert {name: value for name, value in found._asdict().items() if 0 < limits[name] < value} == {}
    assert found.fsyncs >= found.commits > 0
    assert found.records
    assert found.statements
