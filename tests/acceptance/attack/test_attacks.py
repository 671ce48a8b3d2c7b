"""A bus and a producer are attacked in many ways at once: nothing acknowledged is lost, and no trace is false."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.attack import harms
from tests.acceptance.attack.traces import false_traces
from tests.harness.kills import DESTINATION, KillRun, Plan
from tests.harness.loop_disk import MIB, loop_disk
from tests.harness.moved_clock import MovedClock
from tests.proofs.figures import Figures, note

SOUND = ("/fast", "/failing=fail:0.3")
DISK = 1024 * MIB


class Size(NamedTuple):
    """Of one attack: messages and their rate, kills of each side, and how often each harm is done."""

    messages: int
    rate: float
    kills: int
    times: int

    def plan(self, *, drain_within: float = 120) -> Plan:
        """Return what is sent; timeouts are short enough for subscribers that never answer."""
        return Plan(
            self.messages,
            self.rate,
            self.kills,
            seed=20261124,
            stuck_after="3s",
            timeout=3,
            drain_within=drain_within + self.messages / 50,
        )


def sizes(small: Size, full: Size) -> pytest.MarkDecorator:
    """Run it small each time, and whole as a proof."""
    marks = [pytest.mark.proof, pytest.mark.timeout(1_800)]
    return pytest.mark.parametrize(
        "size", [pytest.param(small, id="small"), pytest.param(full, id="full", marks=marks)]
    )


def prove(run: KillRun) -> None:
    """Run it, and fail on any broken promise."""
    lies: list[str] = []
    run.drained = lambda: lies.extend(false_traces(run.bus.admin, DESTINATION, run.subscriber.calls()))
    found = run.run()
    note(Figures(false_traces=len(lies)))
    print(found.figures(), f"{len(lies)} false traces")
    assert found.passed, found.complaints
    assert found.attempts == run.plan.messages
    assert not lies, lies[:10]


@sizes(Size(300, 100, 1, 1), Size(30_000, 300, 24, 2))
def test_nothing_is_lost_among_hostile_subscribers_and_starts_that_are_killed(tmp_path: Path, size: Size) -> None:
    run = KillRun(tmp_path, size.plan(), paths=harms.HOSTILE)
    run.harms += [harms.storms(run, size.times, random.Random(1)), harms.goings(run, size.times)]
    prove(run)


@sizes(Size(300, 100, 0, 2), Size(6_000, 150, 3, 14))
def test_nothing_is_lost_with_the_power_and_small_files(tmp_path: Path, size: Size) -> None:
    with loop_disk(tmp_path, DISK) as disk:
        run = KillRun(tmp_path, size.plan(), paths=SOUND, data=disk.path / "data")
        run.harms.append(harms.power_cuts(run, size.times, disk, random.Random(2)))
        prove(run)


@sizes(Size(200, 100, 0, 1), Size(6_000, 150, 3, 10))
def test_nothing_is_lost_with_the_queue(tmp_path: Path, size: Size) -> None:
    run = KillRun(tmp_path, size.plan(), paths=SOUND)
    run.harms.append(harms.wiped_queues(run, size.times))
    prove(run)


@sizes(Size(300, 100, 1, 1), Size(6_000, 150, 3, 6))
def test_nothing_is_lost_when_the_clock_jumps(tmp_path: Path, size: Size) -> None:
    clock = MovedClock(tmp_path)
    run = KillRun(tmp_path, size.plan(), paths=harms.HOSTILE, clock=clock)
    run.harms.append(harms.clock_jumps(run, size.times, clock, random.Random(3)))
    prove(run)


@sizes(Size(300, 100, 0, 2), Size(6_000, 150, 3, 8))
def test_what_is_acknowledged_while_disks_are_full_is_delivered(tmp_path: Path, size: Size) -> None:
    sides = tmp_path / "bus", tmp_path / "producer"
    for side in sides:
        side.mkdir()
    with loop_disk(sides[0], DISK) as here, loop_disk(sides[1], DISK // 4) as there:
        run = KillRun(tmp_path, size.plan(), paths=SOUND, data=here.path / "data", spool=there.path / "spool")
        on_bus = harms.full_receivers(run, size.times, here)
        run.harms += [on_bus, harms.full_producers(run, size.times, there, on_bus)]
        prove(run)
