"""``bus pipeline serve`` as a process beside a bus: killed anywhere it goes on, and a second one is refused."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from bus.domain.pipelines import Job
from pipeline.lake.batches import READ_LINE, batches_of
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS
from tests.harness.bus_process import BusProcess
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

WITHIN = 240.0
KILLS = 20
TABLE = """\
[pipeline]
every = 1
reconcile_allowance = "5s"
compact_after = "0h"
reconcile = ""
judge = ""
compact = ""
baseline = ""
"""


class World:
    """A bus whose messages are delivered, and a pipeline that stays beside it."""

    def __init__(self, folder: Path, bus: BusProcess) -> None:
        self.folder = folder
        self.bus = bus
        self.sent: list[str] = []
        self._begun = 0
        (folder / "bus.toml").write_text(TABLE)

    def serve(self, *more: object) -> Child:
        given = ("--config", self.folder / "bus.toml", "--data", self.folder / "data", "--url", self.bus.url)
        command = module("pipeline", "serve", *given, "--json", "--memory", "1g", *more)
        self._begun += 1
        return Child(command, log=self.folder / f"serve-{self._begun}.log")

    def send(self, count: int) -> None:
        self.sent += [self.bus.admin.send("orders", b"{}").json()["id"] for _ in range(count)]

    def shown(self) -> dict[str, Any]:
        found = self.bus.admin.call("GET", "/api/v1/pipeline").json()
        return found["pipeline"] or {"runs": [], "stream": {"events": 0}, "started_at": ""}

    def want(self, job: str) -> bool:
        return self.bus.admin.call("POST", "/api/v1/pipeline/runs", json={"job": job}).status_code == 202

    def verdict(self, job: str) -> str:
        """Have a job run, and return how it ended."""
        before = self._last(job)
        wait_until(lambda: self.want(job), within=WITHIN, what="the bus to have heard of the pipeline", every=0.2)
        wait_until(lambda: self._ended(job, before), within=WITHIN, what=f"{job} to end", state=self.shown, every=0.2)
        return str(next(run["verdict"] for run in self.shown()["runs"] if run["job"] == job))

    def _ended(self, job: str, before: int) -> bool:
        return self._last(job) > before and all(run["verdict"] != "running" for run in self.shown()["runs"])

    def _last(self, job: str) -> int:
        return max((run["number"] for run in self.shown()["runs"] if run["job"] == job), default=0)

    @property
    def events(self) -> int:
        lake = Lake(Storage(str(self.folder / "data" / "lake")))
        read = lake.manifests(READ_LINE)
        numbers = [number for each in read for number in batches_of(each.name)]
        assert len(set(numbers)) == len(numbers)
        return sum(each.rows(EVENTS.name) for each in read)


@contextmanager
def ended(child: Child) -> Iterator[Child]:
    """Kill a process, and the Java that it started, whatever happens."""
    try:
        yield child
    finally:
        child.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with BusProcess(tmp_path / "data") as bus, SubscriberProcess(tmp_path) as subscriber:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
        yield World(tmp_path, bus)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
def test_killed_anywhere_it_goes_on(world: World, record_property: Callable[[str, object], None]) -> None:
    chance, broken = random.Random(KILLS), 0
    for number in range(KILLS):
        before = world.shown()["started_at"]
        with ended(world.serve().start()) as serving:
            world.send(20)
            wait_until(
                lambda before=before: serving.check_running() and world.shown()["started_at"] != before,  # type: ignore[misc]
                within=WITHIN,
                what="it to tell the bus",
                every=0.2,
            )
            for job in Job:
                world.want(job)
            time.sleep(chance.random() * 8)  # the moment itself: in a batch, in a proof, between them
            broken += any(run["verdict"] == "running" for run in world.shown()["runs"])
            victim = serving.pid
            if number % 3 == 2:  # Spark's own process alone: the other ends by itself
                java = [each for each in psutil.Process(victim).children(recursive=True) if "java" in each.name()]
                victim = java[0].pid
            os.kill(victim, signal.SIGKILL)
            assert serving.wait(WITHIN) != 0
            if number % 3 == 2:
                assert "Spark's own process ended" in serving.output()
    world.bus.admin.wait_drained("orders", world.sent, within=WITHIN)
    with ended(world.serve().start()) as serving:
        wait_until(lambda: world.events == 3 * len(world.sent), within=WITHIN, what="all events once", every=1)
        proven = wait_until(
            lambda: (verdict := world.verdict("reconcile")) != "unheard" and verdict,
            within=WITHIN,
            what="a proof that judges",
            state=world.shown,
        )
        assert proven == "proven"
        assert world.verdict("compact") == "done"
        assert world.events == 3 * len(world.sent)
        assert serving.stop(WITHIN) == 0, serving.output()
    runs = world.shown()["runs"]
    assert "running" not in {run["verdict"] for run in runs}
    assert "failed" not in {run["verdict"] for run in runs}, runs
    assert len({run["number"] for run in runs}) == len(runs)
    record_property("kills", KILLS)
    record_property("kills in the middle of a run", broken)
    record_property("runs", max(run["number"] for run in runs))


@pytest.mark.proof
def test_a_second_one_is_refused_and_the_first_ends_at_a_signal(world: World) -> None:
    with ended(world.serve("--metrics-port", 0).start()) as wrong:
        assert wrong.wait(WITHIN) == 2
    with ended(world.serve().start()) as first:
        wait_until(lambda: first.check_running() and world.shown()["started_at"], within=WITHIN, what="it to be heard")
        with ended(world.serve().start()) as second:
            assert second.wait(WITHIN) == 1
            assert "another process rolls up into the lake" in second.output()
        world.want("reconcile")
        assert first.stop(WITHIN) == 0, first.output()
        for word in ("Traceback", "ERROR", "error:"):
            assert word not in first.output()
