"""The kill proof over real brokers, which are killed, paused and wiped meanwhile; nothing acknowledged is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.harness.brokers import BROKERS, Broker
from tests.harness.kills import Harm, KillRun, Plan

SMALL = Plan(messages=1_000, rate=250, kills=1, seed=20261121, stuck_after="5s", drain_within=60)
FULL = Plan(messages=20_000, rate=300, kills=3, seed=7, stuck_after="10s", drain_within=300)


def harms(broker: Broker, plan: Plan, times: int) -> list[Harm]:
    """Return as many restarts, pauses and wipes each, of a server chosen by the plan's seed."""
    dice = random.Random(plan.seed)
    return [Harm(times, strike(dice)) for strike in (broker.restart, broker.pause, broker.wipe)]


@pytest.mark.parametrize("transport", [name for name in BROKERS if name != "direct"])
def test_nothing_is_lost_when_a_broker_is_harmed(tmp_path: Path, transport: str) -> None:
    with BROKERS[transport](tmp_path / "servers") as broker:
        run = KillRun(tmp_path, SMALL, transport=transport, env=broker.env, harms=harms(broker, SMALL, 1))
        found = run.run()
    print(found.figures())
    assert found.passed, found.complaints
    assert found.attempts == SMALL.messages


@pytest.mark.proof
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("transport", [name for name in BROKERS if name != "direct"])
def test_nothing_is_lost_over_ten_faults_of_a_broker(tmp_path: Path, transport: str) -> None:
    with BROKERS[transport](tmp_path / "servers") as broker:
        run = KillRun(tmp_path, FULL, transport=transport, env=broker.env, harms=harms(broker, FULL, 3))
        found = run.run()
    print(found.figures())
    assert found.passed, found.complaints
    assert found.attempts == FULL.messages
