"""Messages of a key reach each subscriber one after another, over a real bus that is killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.kills import KillRun, Plan
from tests.harness.process_group import ProcessGroup
from tests.harness.records import Call
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

PATHS = ("/fast", "/slow=delay:0.01", "/flaky=fail:0.05,cut:0.02")
SMALL = Plan(messages=1_500, rate=600, kills=2, seed=20261126, ordering="key", keys=40)
FULL = Plan(messages=20_000, rate=400, kills=20, seed=21, ordering="key", keys=200, drain_within=300)


def prove(folder: Path, plan: Plan, **how: Any) -> None:
    """Run the plan, and fail on any broken promise."""
    found = KillRun(folder, plan, paths=PATHS, **how).run()
    assert found.passed, found.complaints
    assert found.attempts == plan.messages


def test_no_key_is_out_of_order_when_bus_and_producer_are_killed(tmp_path: Path) -> None:
    prove(tmp_path, SMALL)


@pytest.mark.parametrize("how", [{"processes": 3}, {"apart": True}], ids=["processes", "apart"])
def test_no_key_is_out_of_order_when_one_of_several_is_killed(tmp_path: Path, how: dict[str, Any]) -> None:
    prove(tmp_path, SMALL, **how)


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", [{}, {"processes": 3}, {"apart": True}], ids=["alone", "processes", "apart"])
def test_no_key_is_out_of_order_over_twenty_kills_of_each(tmp_path: Path, how: dict[str, Any]) -> None:
    prove(tmp_path, FULL, **how)


def send(bus: Any, numbers: Sequence[int], keys: int = 5) -> None:
    """Send messages by their numbers, in turns of the keys."""
    for number in numbers:
        is_taken = partial(_is_taken, bus, number, keys)
        wait_until(is_taken, within=60, what=f"message {number} is accepted", every=0.1)


def _is_taken(bus: Any, number: int, keys: int) -> bool:
    headers = {"bus-key": f"k{number % keys}", "content-type": "application/json"}
    body = b'{"seq":%d,"n":1}' % number
    return bool(bus.admin.call("POST", "/v1/messages/orders", content=body, headers=headers).status_code == 202)


def first_by_key(calls: Sequence[Call]) -> dict[str, list[int]]:
    """Return the numbers of the first deliveries of each key, as they came."""
    found: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        if call.status == 200 and call.seq is not None and call.seq not in found[call.key]:
            found[call.key].append(call.seq)
    return found


def check_order(subscriber: SubscriberProcess, path: str, count: int) -> None:
    calls = [call for call in subscriber.calls() if call.path == path]
    epochs = [call.epoch for call in calls]
    assert epochs[0] > 0
    assert epochs == sorted(epochs)
    found = first_by_key(calls)
    assert sum(map(len, found.values())) == count
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_the_order_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path, "/hook=fail:1") as subscriber:
        for step, processes in enumerate((3, 2, 1, 2)):
            with ProcessGroup(tmp_path / "data", processes) if processes > 1 else BusProcess(tmp_path / "data") as bus:
                if not step:
                    bus.admin.destination("orders", ordering="key")
                    url = subscriber.url("/hook")
                    bus.admin.subscription("orders", "hook", url, retry=["1s"], max_concurrency=8)
                send(bus, range(step * 50, step * 50 + 50))
                if step == 3:
                    subscriber.configure("/hook=delay:0.001")
                    arrived = "all messages arrive"
                    wait_until(
                        lambda: len({c.seq for c in subscriber.calls() if c.status == 200}) == 200,
                        within=60,
                        what=arrived,
                    )
                else:
                    assert bus.stop() == 0
        check_order(subscriber, "/hook", 200)


@pytest.mark.parametrize("gone", [0, pytest.param(1, marks=pytest.mark.proof)])
def test_who_kept_an_order_and_does_not_come_back_is_swept(tmp_path: Path, gone: int) -> None:
    env = {"BUS_SWEEP": str(tmp_path), "BUS_SWEEP_IDLE": "1"}
    with (
        SubscriberProcess(tmp_path, "/hook=fail:1") as subscriber,
        Cluster(tmp_path, ("admin", "receiver", "receiver", "dispatcher", "dispatcher", "compensator"), env=env) as bus,
    ):
        bus.admin.destination("orders", ordering="key")
        bus.admin.subscription("orders", "hook", subscriber.url("/hook"), retry=["1s"], max_concurrency=8)
        receivers, dispatchers = bus.of("receiver"), bus.of("dispatcher")
        send(receivers[0], range(50))
        for process in (receivers[gone], dispatchers[gone]):
            process.close()
            bus.processes.remove(process)
        bus.add("sweeper")
        send(receivers[1 - gone], range(50, 100))
        subscriber.configure("/hook=delay:0.001")
        arrived = "all messages arrive"
        wait_until(lambda: len({c.seq for c in subscriber.calls() if c.status == 200}) == 100, within=90, what=arrived)
        check_order(subscriber, "/hook", 100)
