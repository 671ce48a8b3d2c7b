"""The kill proof: the SDK's process and the bus die by SIGKILL at random; nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.harness.checker import Judgement
from tests.harness.kills import KillRun, Plan

SMALL = Plan(messages=1_200, rate=300, kills=3, seed=20261121)
FULL = Plan(messages=20_000, rate=300, kills=20, seed=42, drain_within=180)


def prove(folder: Path, plan: Plan) -> None:
    """Run the plan, print the figures, and fail on any broken promise."""
    started = time.monotonic()
    found = KillRun(folder, plan).run()
    _publish(found, plan, time.monotonic() - started)
    assert found.passed, found.complaints
    assert found.attempts == plan.messages
    assert found.acknowledged >= plan.messages - plan.kills


def _publish(found: Judgement, plan: Plan, seconds: float) -> None:
    run = {"messages": plan.messages, "kills_of_each": plan.kills, "seed": plan.seed, "seconds": round(seconds, 1)}
    line = json.dumps({"proof": "kill", **run, **found.figures()})
    print(line)
    if report := os.environ.get("BUS_PROOF_REPORT"):
        with Path(report).open("a") as file:
            file.write(line + "\n")


def test_nothing_is_lost_when_both_sides_are_killed(tmp_path: Path) -> None:
    prove(tmp_path, SMALL)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_nothing_is_lost_over_twenty_kills_of_each(tmp_path: Path) -> None:
    prove(tmp_path, FULL)
