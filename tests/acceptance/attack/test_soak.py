"""A bus that is at work for long, for one sound subscriber and seven bad ones, does not grow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.kills import DESTINATION
from tests.harness.process import Child, free_port, module
from tests.harness.subscribers import SubscriberProcess

RATE = 50
MINUTES = float(os.environ.get("BUS_SOAK_MINUTES", "60"))
# What a process fills up at work (caches, connections, the heap's own spare) it has by then.
SETTLED_AFTER = 10.0
GROWTH = 1.1
BAD = (
    "/failing=fail:1",
    "/limiting=fail:1,status:429,retry_after:2",
    "/redirecting=fail:1,status:302",
    "/refusing=fail:1,status:422",
    "/cutting=cut:1",
    "/hanging=hang",
)
MIB = 2**20


def soak(folder: Path, minutes: float) -> list[tuple[float, float]]:
    """Send for so long; return minutes and MiB of resident memory, every few seconds."""
    seen: list[tuple[float, float]] = []
    with SubscriberProcess(folder, *BAD, fsync=False) as subscriber, BusProcess(folder / "data") as bus:
        bus.admin.destination(DESTINATION)
        for path in ("/sound", *BAD):
            name = path.partition("=")[0]
            bus.admin.subscription(DESTINATION, name.strip("/"), subscriber.url(name), timeout_seconds=1)
        bus.admin.subscription(DESTINATION, "dead", f"http://127.0.0.1:{free_port()}/")
        count = int(RATE * 60 * minutes)
        options = "--url", bus.url, "--spool", folder / "spool", "--history", folder / "producer.jsonl"
        load = "--destination", DESTINATION, "--count", count, "--rate", RATE
        process, begun = psutil.Process(bus.pid), time.monotonic()
        with Child(module("tests.harness.producer", *options, *load), log=folder / "producer.log") as producer:
            while (passed := (time.monotonic() - begun) / 60) < minutes:
                producer.check_running()
                seen.append((passed, process.memory_info().rss / MIB))
                time.sleep(5)
    return seen


@pytest.mark.proof
@pytest.mark.timeout(60 * (MINUTES + 5))
def test_an_hour_with_bad_subscribers_takes_no_more_memory_than_ten_minutes(tmp_path: Path) -> None:
    seen = soak(tmp_path, MINUTES)
    for passed, size in seen[:: max(1, len(seen) // 60)]:
        print(f"{passed:6.1f} min {size:7.1f} MiB")
    settled = next(size for passed, size in seen if passed >= min(SETTLED_AFTER, MINUTES / 6))
    last = seen[-1][1]
    print({"proof": "soak", "minutes": MINUTES, "settled_mib": round(settled, 1), "last_mib": round(last, 1)})
    assert last <= settled * GROWTH
