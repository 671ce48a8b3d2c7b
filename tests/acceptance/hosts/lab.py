"""Hosts that are cut off, stopped and killed: ``python -m tests.acceptance.hosts.lab --work FOLDER --seed N ...``.

In a network of its own (``unshare --net --mount --pid --fork --kill-child --mount-proc``). It prints what is done, and
at the end what was found, as a line of JSON; its exit code is 1 if a promise was broken. Then ``shrink``, beside this
module, finds the faults that matter.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx
import msgspec

from tests.acceptance.hosts import alarms
from tests.acceptance.hosts import faults as harms
from tests.acceptance.hosts.alarms import AlarmWatch
from tests.acceptance.hosts.brokers import PLACES
from tests.acceptance.hosts.faults import Fault, Shape
from tests.acceptance.hosts.oracle import Findings, Producers, judge, missing
from tests.acceptance.hosts.producers import SDK_RATE, Producer, SdkProducer
from tests.acceptance.hosts.world import KEYED_CODE, PLAIN_CODE, STRICT_CODE, World
from tests.harness.waiting import TooLate, wait_until

_DRAIN: Final = 240.0
# From the last fault until no alarm is open.
_CALM: Final = 90.0


def run(world: World, schedule: list[Fault], seed: int, *, seconds: float, sdks: int, quiet: float) -> Findings:
    """Send while the faults are done, and judge once all that was accepted has arrived."""
    watch = AlarmWatch(world)
    sdk_producers = _sdk_producers(world, round((seconds + 2 * quiet) * SDK_RATE), sdks)
    producers = [*_http_producers(world, seed), *sdk_producers]
    time.sleep(quiet)
    begun, at = time.time(), time.monotonic()

    def note(text: str) -> None:
        print(f"{time.monotonic() - at:6.1f} {text}", flush=True)

    harms.run(world, sdk_producers, schedule, note)
    time.sleep(quiet)
    healed = time.monotonic()
    for producer in producers:
        producer.stop()
    drained = _drain(world, producers, note)
    is_calm = drained is not None and _calm_down(world, watch, healed, note)
    watch.stop()
    faults = [(fault, begun) for fault in schedule]
    found = judge(world, producers, faults, None if drained is None else drained - healed)
    found.incidents = len(watch.incidents)
    for incident in watch.incidents:
        span = f"{incident.opened - begun:.0f}-{incident.closed - begun:.0f}"
        print(f"alarm {span} {incident.cause}: {min(incident.texts)}")
    found.complaints += alarms.complaints(watch, faults, over=is_calm)
    return found


def _sdk_producers(world: World, count: int, most: int) -> list[SdkProducer]:
    """Start an SDK for each destination, at a bus of its own."""
    codes = (PLAIN_CODE, world.codes[-1], KEYED_CODE)
    targets = zip(world.nodes[:most], codes, strict=False)
    return [SdkProducer(world, f"s{number}", code, node.url, count) for number, (node, code) in enumerate(targets, 1)]


def _http_producers(world: World, seed: int) -> list[Producer]:
    found = [Producer(world, f"p{number}", PLAIN_CODE, seed) for number in range(3)]
    found += [Producer(world, "k0", KEYED_CODE, seed)]
    return [*found, Producer(world, "x0", STRICT_CODE, seed)] if STRICT_CODE in world.codes else found


def _drain(world: World, producers: Producers, note: Callable[[str], None]) -> float | None:
    """Return when (monotonic seconds) all had arrived that was accepted; None if it did not in time."""
    try:
        wait_until(lambda: not missing(producers, world.subscriber.calls()), within=_DRAIN, what="all arrives", every=1)
    except TooLate as late:
        note(str(late))
        return None
    note("all has arrived")
    return time.monotonic()


def _calm_down(world: World, watch: AlarmWatch, healed: float, note: Callable[[str], None]) -> bool:
    """Wait until the store has all outcomes and no alarm is open; return whether alarms had the time to end."""
    try:
        wait_until(lambda: _are_traces_final(world), within=_DRAIN, what="the store has all outcomes", every=1)
        note("the store has all outcomes")
        time.sleep(3)  # for what is repeated late
        wait_until(lambda: not watch.open, within=max(1.0, _CALM - time.monotonic() + healed), what="calm", every=1)
        note("no alarm is open")
    except TooLate as late:
        note(str(late))
        return "calm" in str(late)
    return True


def _are_traces_final(world: World) -> bool:
    try:
        return not any(world.admins[0].unfinished(code) for code in world.codes)
    except httpx.HTTPError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.hosts.lab")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--transport", choices=PLACES, default="direct")
    parser.add_argument("--apart", action="store_true", help="each role in a process of its own")
    parser.add_argument("--small", action="store_true", help="two nodes, one partition and one stall, 50 seconds")
    parser.add_argument("--only", default="", help="numbers of the schedule's faults, to find the one that matters")
    parser.add_argument("--plan", action="store_true", help="print the schedule alone")
    options = parser.parse_args()
    if options.small:
        options.nodes, options.seconds = 2, 42
    sdks = 1 if options.small else 3
    schedule = harms.schedule(
        options.seed, options.seconds, Shape(options.nodes, options.transport, apart=options.apart, sdks=sdks)
    )
    if options.small:
        schedule = [Fault(3, 23, "cut", "n2", peers=("store", "peers"), way="both"), Fault(30, 42, "stop", "n1")]
    if options.only:
        schedule = [schedule[int(number)] for number in options.only.split(",")]
    for number, fault in enumerate(schedule):
        print(f"fault {number}: {fault}", flush=True)
    if options.plan:
        return
    with World(options.work, nodes=options.nodes, transport=options.transport, apart=options.apart) as world:
        found = run(world, schedule, options.seed, seconds=options.seconds, sdks=sdks, quiet=3.0)
    print(msgspec.json.encode(found).decode(), flush=True)
    sys.exit(1 if found.complaints else 0)


if __name__ == "__main__":
    main()
