"""A process that a strict order depends on is killed: a standby producer, or another bus, goes on within seconds."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.group_parts import GROUPS, GroupPart
from tests.harness.history import Event, read_history
from tests.harness.process import Child, module
from tests.harness.records import Call
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.proofs.figures import Figures, note

CODE: Final = "ledger"
TAKEOVER: Final = 3.0
RATE: Final = 40
# Of a process: its life's number is in its name, so that the messages of each life are apart.
NAMES: Final = ("a", "b")


class Standbys:
    """Two producers, one of which sends; each life of one is a process with a history of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._lives = itertools.count()
        self.histories: list[Path] = []
        self._running: dict[str, Child] = {}

    def start(self, name: str) -> Path:
        """Start one, and return its history."""
        life = f"{name}{next(self._lives)}"
        history = self._folder / f"{life}.jsonl"
        argv = module("tests.harness.producer", "--url", self._url, "--spool", self._folder / f"spool-{name}")
        argv += ["--destination", CODE, "--process", life, "--count", "100000", "--rate", str(RATE)]
        argv += ["--history", str(history), "--takeover", str(TAKEOVER)]
        self._running[name] = Child(argv, log=self._folder / f"{life}.log").start()
        self.histories.append(history)
        return history

    def kill(self, name: str) -> None:
        """SIGKILL one."""
        self._running[name].kill()

    def accepted(self) -> list[Event]:
        """Return what was confirmed, in the order of lives."""
        return [event for path in self.histories for event in accepted(path)]


def accepted(history: Path) -> list[Event]:
    """Return the messages of a life that were confirmed."""
    return [event for event in read_history(history) if event.type == "ok"]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupPart]:
    with GROUPS["kafka"](tmp_path_factory.mktemp("kafka"), []) as part:
        yield part


@pytest.mark.parametrize("kills", [pytest.param(1, id="small"), pytest.param(10, id="full", marks=pytest.mark.proof)])
def test_a_standby_takes_over_from_a_killed_producer(tmp_path: Path, groups: GroupPart, kills: int) -> None:
    with (
        SubscriberProcess(tmp_path, "/book") as subscriber,
        BusProcess(tmp_path / "bus", env=groups.env) as bus,
    ):
        bus.admin.destination(CODE, transport="kafka", ordering="strict")
        bus.admin.subscription(CODE, "book", subscriber.url("/book"))
        standbys = Standbys(tmp_path, bus.url)
        try:
            gaps = _take_turns(standbys, kills)
        finally:
            for name in NAMES:
                standbys.kill(name)
        sent = {event.id for event in standbys.accepted()}
        wait_until(lambda: sent <= {call.id for call in subscriber.calls()}, within=60, what="all are delivered")
        calls = subscriber.calls()
        bus.admin.call("DELETE", f"/api/v1/destinations/{CODE}/subscriptions/book")
    lost = len(sent - {call.id for call in calls})
    note(Figures(messages=len(sent), faults=kills, lost=lost, duplicates=len(calls) - len({call.id for call in calls})))
    print({"kills": kills, "messages": len(sent), "seconds to the first accepted": [round(gap, 1) for gap in gaps]})
    assert not _inversions(calls)


def _take_turns(standbys: Standbys, kills: int) -> list[float]:
    """Kill who sends, again and again; return the seconds until the other one's first message was accepted."""
    leading, waiting = NAMES
    now = standbys.start(leading)
    wait_until(lambda: len(accepted(now)) > RATE, within=60, what="the first one sends")
    gaps = []
    for _ in range(kills):
        successor = standbys.start(waiting)
        wait_until(lambda: len(accepted(now)) > 2 * RATE, within=60, what="the one that leads goes on")  # noqa: B023
        standbys.kill(leading)
        last = accepted(now)[-1].t
        (first, *_) = wait_until(lambda: accepted(successor), within=60, what="the standby sends")  # noqa: B023
        gaps.append(first.t - last)
        leading, waiting, now = waiting, leading, successor
    return gaps


def _inversions(calls: list[Call]) -> list[str]:
    """Return first deliveries behind later ones: of the same life, or of a later life."""
    seen, newest, wrong = set[str](), (-1, -1), list[str]()
    for call in calls:
        place = (int(call.key[1:]), call.seq or 0)
        if call.id not in seen and place < newest:
            wrong.append(f"{place} after {newest}")
        seen.add(call.id)
        newest = max(newest, place)
    return wrong


def test_a_role_is_taken_over_within_the_time_that_is_set(tmp_path: Path, groups: GroupPart) -> None:
    env = {**groups.env, "BUS_STORE": f"sqlite:///{tmp_path}/store", "BUS_STRICT_TAKEOVER": "2"}
    with BusProcess(tmp_path / "one", env=env) as one, BusProcess(tmp_path / "two", env=env) as two:
        one.admin.destination("entries", transport="kafka", ordering="strict")
        by_url = {one.url: one, two.url: two}

        def holder(asked: BusProcess) -> tuple[str, int]:
            sender = asked.admin.ordering("entries")["sender"] or {}
            return sender.get("url", ""), sender.get("epoch", 0)

        first = wait_until(lambda: holder(one)[0] and holder(one), within=30, what="one of them sends")
        leader = by_url[first[0]]
        other = two if leader is one else one
        leader.child.signal(signal.SIGSTOP)
        time.sleep(1)
        leader.child.signal(signal.SIGCONT)
        time.sleep(2)
        assert holder(other) == first
        leader.kill()
        began = time.monotonic()
        wait_until(lambda: holder(other)[0] == other.url, within=30, what="the other one sends")
        print({"seconds until the role was taken over": round(time.monotonic() - began, 1)})
