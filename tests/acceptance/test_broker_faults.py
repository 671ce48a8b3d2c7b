"""The kill proof over real brokers and stores, which are killed, paused and wiped meanwhile: nothing is lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.kills import Harm, KillRun, Plan
from tests.harness.parts import BROKERS, STORES, Part

SMALL = Plan(messages=300, rate=80, kills=1, seed=20261121, stuck_after="5s", drain_within=90)
FULL = Plan(messages=20_000, rate=200, kills=4, seed=7, stuck_after="10s", drain_within=600)
ON_MONGODB = 5_000


def harms(part: Part, plan: Plan, restarts: int, pauses: int, wipes: int) -> list[Harm]:
    """Return what is done to a part's servers, chosen by the plan's seed."""
    dice = random.Random(plan.seed)
    counts = {part.restart: restarts, part.pause: pauses, part.wipe: wipes}
    return [Harm(times, strike(dice)) for strike, times in counts.items()] if part.servers else []


class Ground(NamedTuple):
    """What a bus stands on."""

    transport: str
    store: str
    broker: Part
    base: Part


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """Run the broker and the store that the test's parameters name."""
    transport, store = request.param
    with ExitStack() as stack:
        broker = stack.enter_context(BROKERS[transport](tmp_path / transport))
        yield Ground(transport, store, broker, stack.enter_context(STORES[store](tmp_path / store)))


def prove(folder: Path, plan: Plan, ground: Ground, broker: tuple[int, int, int], kept: int) -> None:
    """Run the plan; ``broker`` counts restarts, pauses and wipes of brokers, ``kept`` restarts of the store."""
    harm = [*harms(ground.broker, plan, *broker), *harms(ground.base, plan, kept, 0, 0)]
    run = KillRun(folder, plan, transport=ground.transport, env=ground.broker.env | ground.base.env, harms=harm)
    found = run.run()
    print({"transport": ground.transport, "store": ground.store, "carried": run.carried, **found.figures()})
    assert found.passed, found.complaints
    assert found.attempts == plan.messages
    assert run.carried > plan.messages / 10


@pytest.mark.parametrize("ground", [("nsq", "mongodb")], indirect=True, ids="-".join)
def test_nothing_is_lost_when_a_broker_and_the_store_are_harmed(tmp_path: Path, ground: Ground) -> None:
    prove(tmp_path, SMALL, ground, (1, 0, 0), 1)


@pytest.mark.parametrize("ground", [("rabbitmq", "sqlite")], indirect=True, ids="-".join)
def test_no_key_is_out_of_order_when_a_broker_stands_still(tmp_path: Path, ground: Ground) -> None:
    prove(tmp_path, replace(SMALL, ordering="key", keys=20), ground, (0, 1, 0), 0)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("ground", [("kafka", "sqlite"), ("rabbitmq", "sqlite")], indirect=True, ids="-".join)
def test_no_key_is_out_of_order_over_twelve_faults(tmp_path: Path, ground: Ground) -> None:
    prove(tmp_path, replace(FULL, ordering="key", keys=200), ground, (2, 2, 0), 2)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("ground", list(itertools.product(BROKERS, STORES)), indirect=True, ids="-".join)
def test_nothing_is_lost_over_ten_faults(tmp_path: Path, ground: Ground) -> None:
    messages = ON_MONGODB if ground.store == "mongodb" else FULL.messages
    plan = Plan(messages, FULL.rate, FULL.kills, FULL.seed, stuck_after=FULL.stuck_after, drain_within=600)
    prove(tmp_path, plan, ground, (2, 2, 2), 2)
