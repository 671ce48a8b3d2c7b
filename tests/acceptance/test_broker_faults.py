"""The kill proof over real brokers and stores, which are killed, paused and wiped meanwhile: nothing is lost."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.kills import Harm, KillRun, Plan
from tests.harness.parts import BROKERS, STORES, Part

SMALL = Plan(messages=1_000, rate=50, kills=1, seed=20261121, stuck_after="5s", drain_within=90)
FULL = Plan(messages=20_000, rate=200, kills=4, seed=7, stuck_after="10s", drain_within=600)
ON_MONGODB = 5_000


def harms(part: Part, plan: Plan, restarts: int, pauses: int, wipes: int) -> list[Harm]:
    """Return what is done to a part's servers, chosen by the plan's seed."""
    dice = random.Random(plan.seed)
    counts = {part.restart: restarts, part.pause: pauses, part.wipe: wipes}
    return [Harm(times, strike(dice)) for strike, times in counts.items()] if part.servers else []


def prove(folder: Path, plan: Plan, transport: str, store: str, broker: tuple[int, int, int], kept: int) -> None:
    """Run the plan; ``broker`` counts restarts, pauses and wipes of brokers, ``kept`` restarts of the store."""
    with ExitStack() as stack:
        road = stack.enter_context(BROKERS[transport](folder / transport))
        base = stack.enter_context(STORES[store](folder / store))
        harm = [*harms(road, plan, *broker), *harms(base, plan, kept, 0, 0)]
        run = KillRun(folder, plan, transport=transport, env=road.env | base.env, harms=harm)
        found = run.run()
    print({"transport": transport, "store": store, "carried": run.carried, **found.figures()})
    assert found.passed, found.complaints
    assert found.attempts == plan.messages
    assert run.carried > plan.messages / 10


@pytest.mark.parametrize("transport", [name for name in BROKERS if name != "direct"])
def test_nothing_is_lost_when_a_broker_is_harmed(tmp_path: Path, transport: str) -> None:
    prove(tmp_path, SMALL, transport, "sqlite", (1, 0, 1), 0)


def test_nothing_is_lost_when_the_store_is_harmed(tmp_path: Path) -> None:
    prove(tmp_path, SMALL, "direct", "mongodb", (0, 0, 0), 1)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("transport", BROKERS)
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_over_ten_faults(tmp_path: Path, transport: str, store: str) -> None:
    messages = ON_MONGODB if store == "mongodb" else FULL.messages
    plan = Plan(messages, FULL.rate, FULL.kills, FULL.seed, stuck_after=FULL.stuck_after, drain_within=600)
    prove(tmp_path, plan, transport, store, (2, 2, 2), 2)
