"""A destination changes its transport again and again under load, and nothing is lost or left behind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.kills import DESTINATION, Harm, KillRun, Plan
from tests.harness.parts import BROKERS
from tests.harness.waiting import wait_until

ROUND = ("rabbitmq", "nsq", "direct", "kafka")
FEW = ("nsq", "direct")
HUNG = "/hung=hang:true"
SMALL = Plan(messages=300, rate=60, kills=0, seed=20261121, drain_within=90)
FULL = Plan(messages=20_000, rate=200, kills=0, seed=3, drain_within=300)


def prove(folder: Path, plan: Plan, names: Sequence[str], rounds: int) -> None:
    """Begin on the last transport, switch around, heal the subscriber that hung, and look for what is left."""
    with ExitStack() as stack:
        parts = {name: stack.enter_context(BROKERS[name](folder / name)) for name in names}
        env = {key: value for part in parts.values() for key, value in part.env.items()}
        transports = itertools.cycle(names)
        left: dict[str, int] = {}

        def switch() -> None:
            run.bus.admin.destination(DESTINATION, transport=next(transports))

        def heal() -> None:
            run.subscriber.configure("/hung=hang:false")

        def emptied() -> None:
            wait_until(
                lambda: not any(run.bus.admin.backlogs().values()),
                within=60,
                what="no transport holds anything",
                state=lambda: {key: count for key, count in run.bus.admin.backlogs().items() if count},
            )
            left.update(run.bus.admin.backlogs())

        run = KillRun(
            folder,
            plan,
            transport=names[-1],
            env=env,
            harms=[Harm(len(names) * rounds, switch)],
            paths=("/fast", "/slow=delay:0.02", HUNG),
            at_end=heal,
            drained=emptied,
        )
        found = run.run()
    print(found.figures())
    assert found.passed, found.complaints
    assert found.attempts == plan.messages
    assert {name for name in names if any(f'transport="{name}"' in labels for labels in left)} == set(names)


def test_nothing_is_lost_when_the_transport_changes_under_load(tmp_path: Path) -> None:
    prove(tmp_path, SMALL, FEW, 2)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_nothing_is_lost_when_the_transport_changes_many_times(tmp_path: Path) -> None:
    prove(tmp_path, FULL, ROUND, 5)
