"""A repair of a strict order gives the bus its deliveries in their order, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import msgspec
import pytest

from pipeline.commands import repairing
from pipeline.commands.repairing import RepairOptions, repair
from pipeline.reports.summary import Finding
from tests.unit.pipeline.test_proof_report import LOST, summary


class Bus:
    """A bus with the strictly ordered destination ``orders``, whose jobs end when they were looked at ``looks`` times.

    Attributes
    ----------
    jobs
        The deliveries of each job, by its id.
    at_work
        The greatest number of jobs of one destination that were unfinished at the same time.
    """

    def __init__(self, looks: int, *, has_lost: bool = True) -> None:
        self.looks = looks
        self.has_lost = has_lost
        self.jobs: dict[str, dict[str, Any]] = {}
        self.left: dict[str, int] = {}
        self.at_work: dict[str, int] = {"orders": 0, "bills": 0}

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, method: str, path: str, *, body: Any = None) -> dict[str, Any]:
        if path == "/api/v1/destinations":
            return {"items": [{"code": "bills", "ordering": "none"}, {"code": "orders", "ordering": "strict"}]}
        if path == "/api/v1/destinations/orders/ordering":
            return {"gaps": [{"group": "g1"}] if self.has_lost else [], "consume": []}
        if method == "POST":
            return {"id": self._begin(body)}
        job = path.rpartition("/")[2]
        self.left[job] -= 1
        count = len(self.jobs[job]["deliveries"])
        is_done = self.left[job] <= 0
        counts = {"selected": count, "waiting": 0 if is_done else count, "delivered": count if is_done else 0}
        return {"state": "done" if is_done else "sending", "counts": counts}

    def _begin(self, body: dict[str, Any]) -> str:
        job = f"job-{len(self.jobs)}"
        self.jobs[job], self.left[job] = body, self.looks
        code = body["destination"]
        working = [one for one, left in self.left.items() if left > 0 and self.jobs[one]["destination"] == code]
        self.at_work[code] = max(self.at_work[code], len(working))
        return job

    def given(self, code: str) -> list[str]:
        """Return the ids of the deliveries of a destination, as they came."""
        return [one["id"] for job in self.jobs.values() if job["destination"] == code for one in job["deliveries"]]


def findings(code: str, numbers: range) -> list[Finding]:
    return [msgspec.structs.replace(LOST, destination=code, id=f"{number:06}") for number in numbers]


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait is over at once, and takes the time that it was to take."""
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    monkeypatch.setattr(repairing.time, "sleep", sleep)
    monkeypatch.setattr(repairing.time, "monotonic", lambda: passed[0])


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch, time_passes: None) -> Iterator[Bus]:
    found = Bus(looks=3)
    monkeypatch.setattr(repairing, "Api", found)
    return found


MISSING = findings("bills", range(2_500)) + findings("orders", range(0, 5_000, 2))
HELD = findings("orders", range(1, 5_000, 2))


def test_missing_and_held_of_a_strict_order_are_one_line(bus: Bus) -> None:
    options = RepairOptions("http://bus", "", None, wait=60.0, reorder=True)
    balance = repair(summary(missing=MISSING, held=HELD), options, [])
    assert bus.given("orders") == [f"{number:06}" for number in range(5_000)]
    assert bus.at_work == {"orders": 1, "bills": 3}
    assert (balance.jobs, balance.counts["delivered"], balance.is_whole) == ([*bus.jobs], 7_500, True)


def test_held_ones_are_left_alone_where_nothing_was_lost(bus: Bus) -> None:
    bus.has_lost = False
    repair(summary(missing=MISSING, held=HELD), RepairOptions("http://bus", "", None, 60.0, reorder=True), [])
    assert bus.given("orders") == [f"{number:06}" for number in range(0, 5_000, 2)]


def test_what_the_wait_did_not_suffice_for_is_counted(bus: Bus) -> None:
    bus.looks = 1_000
    balance = repair(summary(missing=MISSING, held=HELD), RepairOptions("http://bus", "", None, 5.0, reorder=True), [])
    assert (len(bus.given("orders")), balance.unbegun, balance.is_whole) == (1_000, 4_000, False)
    assert "4000 of a strict order wait for those before them" in balance.sentence
