"""Each role a process of its own, several of some: they share permits, and any of them may die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.kills import KillRun, Plan
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SMALL = Plan(messages=400, rate=100, kills=3, seed=20261121, stuck_after="5s", drain_within=60)
FULL = Plan(messages=5_000, rate=200, kills=20, seed=20261121, stuck_after="5s", drain_within=180)
MOST = 5


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(FULL, id="full", marks=[pytest.mark.proof, pytest.mark.timeout(600)]),
    ],
)
def test_nothing_is_lost_when_processes_are_killed_one_by_one(tmp_path: Path, plan: Plan) -> None:
    found = KillRun(tmp_path, plan, apart=True).run()
    print(found.figures())
    assert found.passed, found.complaints
    assert found.attempts == plan.messages


def test_two_dispatchers_on_one_host_are_told_apart_in_traces_and_on_the_overview(tmp_path: Path) -> None:
    env = {"BUS_STORE": f"sqlite:///{tmp_path}/store"}
    with (
        SubscriberProcess(tmp_path) as subscriber,
        BusProcess(tmp_path / "one", env=env) as bus,
        BusProcess(tmp_path / "two", env=env, role="dispatcher"),
        # Of its own, so that it hands messages to both.
        BusProcess(tmp_path / "door", env=env, role="receiver") as door,
    ):
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"), max_concurrency=2)

        def dispatchers() -> set[str]:
            found = bus.admin.call("GET", "/api/v1/processes").json()["items"]
            return {one["node"] for one in found if "dispatcher" in one["roles"]}

        names = wait_until(lambda: len(dispatchers()) == 2 and dispatchers(), within=30, what="both are known")
        posted: set[str] = set()

        def both_posted() -> bool:
            sent = [door.admin.send("orders", b"{}").json()["id"] for _ in range(8)]
            bus.admin.wait_drained("orders", sent, within=30)
            deliveries = [delivery for one in sent for delivery in bus.admin.trace(one)["deliveries"]]
            posted.update(attempt["node"] for delivery in deliveries for attempt in delivery["attempts"])
            return len(posted) == 2

        wait_until(both_posted, within=60, what="both have posted")
    assert posted == names


@pytest.mark.proof
def test_dispatchers_that_come_and_go_share_the_permits(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path, "/slow=delay:0.05") as subscriber, Cluster(tmp_path) as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "slow", subscriber.url("/slow"), max_concurrency=MOST)
        ids = _pile_up(bus, range(150))
        wait_until(lambda: len(_nodes(subscriber)) > 50, within=60, what="a third is delivered")
        bus.add("dispatcher")
        ids += _pile_up(bus, range(150, 250))
        wait_until(lambda: len(_nodes(subscriber)) > 170, within=60, what="most is delivered")
        leaving = bus.of("dispatcher")[0]
        assert leaving.stop() == 0
        wait_until(lambda: len(_nodes(subscriber)) > 200, within=60, what="the others go on")
        leaving.start()
        bus.admin.wait_drained("orders", ids, within=60)
        calls = subscriber.calls("/slow")
    assert sorted(call.id for call in calls) == sorted(ids)
    assert max(call.in_flight for call in calls) == MOST


def _send(bus: Cluster, number: int) -> str:
    receivers = bus.of("receiver")
    answer = receivers[number % len(receivers)].admin.send("orders", b'{"n":%d}' % number)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def _pile_up(bus: Cluster, numbers: range) -> list[str]:
    """Send messages that wait together, so that they take all permits however slowly they are sent."""
    bus.admin.pause("orders", "slow", paused=True)
    ids = [_send(bus, number) for number in numbers]
    bus.admin.pause("orders", "slow", paused=False)
    return ids


def _nodes(subscriber: SubscriberProcess) -> list[str]:
    return [call.id for call in subscriber.calls("/slow")]


@pytest.mark.proof
def test_the_queues_of_processes_that_do_not_come_back_are_swept(tmp_path: Path) -> None:
    env = {"BUS_SWEEP": str(tmp_path), "BUS_SWEEP_IDLE": "1"}
    roles = ("admin", "receiver", "dispatcher", "dispatcher", "compensator")
    with SubscriberProcess(tmp_path) as subscriber, Cluster(tmp_path, roles, env=env) as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"), paused=True)
        ids = [_send(bus, number) for number in range(200)]
        wait_until(lambda: len(list(bus.admin.messages(destination="orders"))) == len(ids), within=60, what="stored")
        gone = bus.of("dispatcher")[0]
        gone.kill()
        bus.processes.remove(gone)
        bus.admin.pause("orders", "shop", paused=False)
        bus.add("sweeper")
        bus.admin.wait_drained("orders", ids, within=60)
        wait_until(lambda: not gone.data.exists(), within=60, what="the emptied directory is removed whole")
    assert sorted(call.id for call in subscriber.calls("/shop")) == sorted(ids)
