"""A strictly ordered destination over real groups of brokers, which are killed as their leaders are."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from bus.transports.rabbitmq.names import Lane
from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.group_parts import GROUPS, GroupPart
from tests.harness.history import read_history
from tests.harness.kills import DESTINATION, Harm, KillRun, Plan
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.zookeeper import ZookeeperServer

SMALL = Plan(messages=300, rate=150, kills=1, seed=4, ordering="strict", keys=20, drain_within=60)
FULL = Plan(messages=50_000, rate=200, kills=4, seed=21, ordering="strict", keys=500, drain_within=900)
QUICK = ("/fast", "/flaky=fail:0.01")
BEHIND = ("/fast", "/slow=delay:0.003", "/flaky=fail:0.001")
PAST_LEASE = 9.0
Act = Callable[[GroupPart, random.Random, int, float], Callable[[], None]]


class Ground(NamedTuple):
    """What a bus stands on."""

    transport: str
    part: GroupPart


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Run two groups of the brokers that the test's parameter names."""
    lanes = [Lane(DESTINATION, path.strip("/").partition("=")[0]) for path in QUICK]
    with GROUPS[request.param](tmp_path_factory.mktemp(request.param), lanes) as part:
        yield Ground(request.param, part)


@pytest.mark.parametrize(
    ("ground", "harm"), [("kafka", GroupPart.kill), ("rabbitmq", GroupPart.pause)], indirect=["ground"]
)
def test_a_strict_order_is_kept_when_a_group_goes(tmp_path: Path, ground: Ground, harm: Act) -> None:
    part = ground.part
    harms = [Harm(1, harm(part, random.Random(1), len(part.groups[0].copies), 3))]
    run = KillRun(tmp_path, SMALL, transport=ground.transport, env=ground.part.env, paths=QUICK, harms=harms)
    found = run.run()
    assert found.passed, found.complaints
    assert found.attempts == SMALL.messages


@pytest.mark.proof
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("ground", GROUPS, indirect=True)
def test_a_strict_order_is_kept_over_thirty_faults(tmp_path: Path, ground: Ground) -> None:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperServer(need("zookeeper"), tmp_path / "zookeeper"))
        env = ground.part.env | {"BUS_ZOOKEEPER": zookeeper.address}
        run = KillRun(tmp_path, FULL, transport=ground.transport, env=env, paths=BEHIND, apart=True)
        stalls = Stalls()
        run.harms += [
            Harm(times, stalls.noting(what, strike), crashes)
            for what, times, strike, crashes in strikes(ground.part, run, zookeeper)
        ]
        found = run.run()
    assert sum(harm.times for harm in run.harms) + 2 * FULL.kills == 30
    print({"transport": ground.transport, **found.figures()})
    print(stalls.table(deliveries(tmp_path, "/fast")))
    assert found.passed, found.complaints
    assert found.attempts == FULL.messages


def strikes(
    part: GroupPart, run: KillRun, zookeeper: ZookeeperServer
) -> Iterator[tuple[str, int, Callable[[], None], int]]:
    """Yield what is done to the run, how often, and how many processes of the bus it takes from their work."""
    dice, copies = random.Random(FULL.seed), len(part.groups[0].copies)
    yield "one copy of a group killed", 4, part.kill(dice, 1, 3), 0
    yield "all copies of a group killed", 5, part.kill(dice, copies, 5), 0
    yield "one copy of a group stood still", 3, part.pause(dice, 1, 5), 0
    yield "a leader killed", 4, lambda: killed(leader(run, dice)), 1
    yield "a leader stood still past its lease", 4, lambda: stood_still(leader(run, dice)), 1
    yield "coordinator restarted", 2, lambda: restarted(zookeeper), 0


def leader(run: KillRun, dice: random.Random) -> BusProcess:
    """Return the process that sends to the destination, or the one that reads it, as the bus tells."""
    assert isinstance(run.bus, Cluster)
    role = dice.choice(["sender", "reader"])

    def found() -> BusProcess | None:
        holder = run.bus.admin.ordering(DESTINATION)[role] or {}
        return next((one for one in run.bus.processes if one.url == holder.get("url")), None)

    return wait_until(found, within=30, what=f"the destination has a {role}")


def killed(process: BusProcess) -> None:
    """SIGKILL it, and start it again."""
    process.kill()
    process.start()


def stood_still(process: BusProcess) -> None:
    """Have it stand still for longer than its lease lasts."""
    process.child.signal(signal.SIGSTOP)
    time.sleep(PAST_LEASE)
    process.child.signal(signal.SIGCONT)


def restarted(zookeeper: ZookeeperServer) -> None:
    """SIGKILL it, and start it again."""
    zookeeper.kill()
    zookeeper.start()


def deliveries(folder: Path, path: str) -> list[float]:
    """Return when each message was delivered, as its subscriber wrote it down."""
    return sorted(event.t for event in read_history(folder / "history.jsonl") if event.subscription == path)
