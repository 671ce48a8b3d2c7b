"""Hosts that are cut off, stopped and killed: ``python -m tests.acceptance.hosts.lab --work FOLDER --seed N ...``.

In a network of its own (``unshare --net --mount --pid --fork --kill-child --mount-proc``). It prints what is done, and
at the end what was found, as a line of JSON; its exit code is 1 if a promise was broken. Then ``shrink``, beside this
module, finds the faults that matter.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

import httpx
import msgspec

from tests.acceptance.hosts import faults as harms
from tests.acceptance.hosts.faults import Fault
from tests.acceptance.hosts.oracle import Findings, judge, missing
from tests.acceptance.hosts.producers import Producer
from tests.acceptance.hosts.world import KEYED_CODE, PLAIN_CODE, World
from tests.harness.waiting import TooLate, wait_until

_DRAIN: Final = 240.0


def run(world: World, schedule: list[Fault], seed: int, quiet: float) -> Findings:
    """Send while the faults are done, and judge once all that was accepted has arrived."""
    producers = [Producer(world, f"p{number}", PLAIN_CODE, seed) for number in range(3)]
    producers.append(Producer(world, "k0", KEYED_CODE, seed))
    time.sleep(quiet)
    begun, at = time.time(), time.monotonic()
    harms.run(world, schedule, lambda text: print(f"{time.monotonic() - at:6.1f} {text}", flush=True))
    time.sleep(quiet)
    healed = time.monotonic()
    for producer in producers:
        producer.stop()
    drained: float | None = None
    try:
        wait_until(lambda: not missing(producers, world.subscriber.calls()), within=_DRAIN, what="all arrives", every=1)
        drained = time.monotonic() - healed
        wait_until(lambda: _are_traces_final(world), within=_DRAIN, what="the store has all outcomes", every=1)
        time.sleep(3)  # for what is repeated late
    except TooLate as late:
        print(late, flush=True)
    return judge(world, producers, [(fault, begun) for fault in schedule], drained)


def _are_traces_final(world: World) -> bool:
    try:
        return not any(world.nodes[0].bus.admin.unfinished(code) for code in (PLAIN_CODE, KEYED_CODE))
    except httpx.HTTPError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.hosts.lab")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--transport", choices=("direct", "rabbitmq"), default="direct")
    parser.add_argument("--small", action="store_true", help="two nodes, one partition and one stall, 50 seconds")
    parser.add_argument("--only", default="", help="numbers of the schedule's faults, to find the one that matters")
    parser.add_argument("--plan", action="store_true", help="print the schedule alone")
    options = parser.parse_args()
    if options.small:
        options.nodes = 2
    is_brokered = options.transport == "rabbitmq"
    schedule = harms.schedule(options.seed, options.seconds, nodes=options.nodes, broker=is_brokered)
    if options.small:
        schedule = [Fault(3, 23, "cut", 1, ("store", "peers"), "both"), Fault(30, 42, "stop", 0)]
    if options.only:
        schedule = [schedule[int(number)] for number in options.only.split(",")]
    for number, fault in enumerate(schedule):
        print(f"fault {number}: {fault}", flush=True)
    if options.plan:
        return
    with World(options.work, nodes=options.nodes, transport=options.transport) as world:
        found = run(world, schedule, options.seed, quiet=3.0)
    print(msgspec.json.encode(found).decode(), flush=True)
    sys.exit(1 if found.complaints else 0)


if __name__ == "__main__":
    main()
