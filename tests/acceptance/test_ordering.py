"""Messages of a key reach each subscriber one after another, over a real bus that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.kills import KillRun, Plan

PATHS = ("/fast", "/slow=delay:0.01", "/flaky=fail:0.05,cut:0.02")
SMALL = Plan(messages=1_500, rate=600, kills=2, seed=20261126, ordering="key", keys=40)
FULL = Plan(messages=20_000, rate=400, kills=20, seed=21, ordering="key", keys=200, drain_within=300)


def prove(folder: Path, plan: Plan) -> None:
    """Run the plan, and fail on any broken promise."""
    found = KillRun(folder, plan, paths=PATHS).run()
    assert found.passed, found.complaints
    assert found.attempts == plan.messages


def test_no_key_is_out_of_order_when_bus_and_producer_are_killed(tmp_path: Path) -> None:
    prove(tmp_path, SMALL)


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_no_key_is_out_of_order_over_twenty_kills_of_each(tmp_path: Path) -> None:
    prove(tmp_path, FULL)
