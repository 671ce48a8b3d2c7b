"""Attacks on a running bus, besides kills."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import time
from typing import Final

from httpx import codes

from bus.domain.lanes import STORE
from bus.spool.inspect import Inspection
from tests.harness.bus_process import BusProcess
from tests.harness.kills import DESTINATION, Harm, KillRun
from tests.harness.loop_disk import MIB, LoopDisk
from tests.harness.moved_clock import DAY, HOUR, MovedClock
from tests.harness.waiting import wait_until

# Each fails for a while in its own way, and takes everything in the end.
HOSTILE: Final = (
    "/fast",
    "/failing=fail:0.3",
    "/limiting=fail:0.2,status:429,retry_after:1",
    "/redirecting=fail:0.2,status:302",
    "/refusing=fail:0.2,status:422",
    "/cutting=cut:0.2",
    "/hanging=stall:0.02",
    "/trickling=trickle:0.3",
    "/gone",
)
_STARTS: Final = 5
_STORES: Final = ("store", STORE)
_LONGEST_JUMP: Final = 0.6
_FULL_FOR: Final = 0.5
_PROBE: Final = "probe"
_LONGEST_START: Final = 0.6


def storms(run: KillRun, times: int, dice: random.Random) -> Harm:
    """Kill the bus again and again while it starts."""
    bus = _bus(run)

    def strike() -> None:
        bus.kill()
        for _ in range(_STARTS):
            bus.child.start()
            time.sleep(dice.uniform(0, _LONGEST_START))
            bus.kill()
        bus.start()

    return Harm(times, strike, _STARTS + 1)


def goings(run: KillRun, times: int) -> Harm:
    """Have one subscriber answer 410 until its subscription is paused, and resume it."""
    path = f"/api/v1/destinations/{DESTINATION}/subscriptions/gone"

    def is_paused() -> bool:
        return bool(run.bus.admin.call("GET", path).json()["paused"])

    def strike() -> None:
        run.subscriber.configure("/gone=fail:1,status:410")
        # Where all was delivered already there is nobody left to be told 410.
        wait_until(lambda: is_paused() or run.is_all_over(), within=60, what="410 pauses the subscription")
        run.subscriber.configure("/gone=")
        run.bus.admin.pause(DESTINATION, "gone", paused=False)

    return Harm(times, strike)


def power_cuts(run: KillRun, times: int, disk: LoopDisk, dice: random.Random) -> Harm:
    """Cut the power of the bus's disk, and empty one of its small files as if that had not been synced."""
    bus = _bus(run)

    def strike() -> None:
        bus.child.signal(signal.SIGSTOP)
        disk.cut_power()
        bus.kill()
        disk.unmount()
        disk.mount()
        small = [*bus.data.glob("processes/*/*"), *bus.data.glob("configuration/*")]
        dice.choice([path for path in sorted(small) if path.is_file()]).write_bytes(b"")
        bus.start()

    return Harm(times, strike, 1)


def wiped_queues(run: KillRun, times: int) -> Harm:
    """Stop the bus, and take its journal away once the store has all: what the direct queue held is found missing."""
    bus = _bus(run)

    def strike() -> None:
        bus.stop()
        with Inspection(bus.data / "journal") as journal:
            unstored = [one for one in journal.overview().consumers if one.records and one.consumer in _STORES]
        assert not unstored
        shutil.rmtree(bus.data / "journal")
        bus.start()

    return Harm(times, strike, 1)


def clock_jumps(run: KillRun, times: int, clock: MovedClock, dice: random.Random) -> Harm:
    """Put the clock of bus and producer a day ahead and back, an hour back and ahead."""

    def strike() -> None:
        for seconds in (DAY, 0, -HOUR, 0, HOUR, -DAY, 0):
            clock.put(seconds)
            time.sleep(dice.uniform(0.1, _LONGEST_JUMP))

    return Harm(times, strike)


def full_receivers(run: KillRun, times: int, disk: LoopDisk) -> Harm:
    """Fill the bus's disk until it refuses messages, and free it."""

    def strike() -> None:
        run.bus.admin.destination(_PROBE)
        disk.fill(leave=MIB)
        wait_until(lambda: _status(run) == codes.INSUFFICIENT_STORAGE, within=60, what="the full disk is noticed")
        time.sleep(_FULL_FOR)
        disk.empty()
        wait_until(lambda: _status(run) == codes.ACCEPTED, within=60, what="messages are taken again")

    return Harm(times, strike)


def full_producers(run: KillRun, times: int, disk: LoopDisk, also: Harm) -> Harm:
    """Fill the producer's disk, every other time while the bus's is filled as well, and free it."""
    turn = itertools.count()

    def strike() -> None:
        disk.fill(leave=MIB)
        if next(turn) % 2:
            also.strike()
        else:
            time.sleep(_FULL_FOR)
        disk.empty()

    return Harm(times, strike)


def _status(run: KillRun) -> int:
    """Return how a message to a destination beside the run's is answered."""
    return run.bus.admin.send(_PROBE, b"{}").status_code


def _bus(run: KillRun) -> BusProcess:
    assert isinstance(run.bus, BusProcess)
    return run.bus
