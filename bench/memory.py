"""Memory of ``bus up`` with a long backlog: for one subscriber that hangs and one that is paused."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import Sending
from bench.systems import TOPIC, Pier

SECTION = "memory"
LIMIT_MIB = 400.0
MIB = 1024 * 1024
SAMPLE_EVERY = 0.2
REST = 10.0
START_LIMIT = 5.0


def measure(run: Run) -> list[Row]:
    """Return the peak with the backlog of this run's size, how it grew since a tenth of it, and that of a restart."""
    backlog = run.size.backlog
    run.step(f"memory with a backlog of {backlog:,}")
    with run.sink("/hung=hang") as sink, run.place() as folder:
        bus = Pier(folder, [sink.url("/hung"), sink.url("/paused")])
        try:
            bus.start()
            bus.bus.admin.pause(TOPIC, "s1", paused=True)
            small, whole = [_fill(bus, count) for count in (backlog // 10, backlog - backlog // 10)]
            began = time.monotonic()
            bus.kill()
            bus.restart()
            start = time.monotonic() - began
            restarted = _peak(bus, lambda: time.monotonic() - began > start + REST)
        finally:
            bus.close()
    figure = f"peak RSS, backlog {backlog:,}"
    return [
        against_limit(SECTION, figure, [max(small, whole)], "MiB", LIMIT_MIB),
        Row(SECTION, figure, [whole], "MiB", f"backlog {backlog // 10:,}", [small], lower=True),
        against_limit(SECTION, f"{figure}, after kill -9 and start", [restarted], "MiB", LIMIT_MIB),
        against_limit(SECTION, f"start after kill -9, backlog {backlog:,}", [start], "s", START_LIMIT),
    ]


def _fill(bus: Pier, count: int) -> float:
    """Send messages, let the bus settle, and return the peak in MiB."""
    url = bus.publish_url.removesuffix(f"/{TOPIC}")
    sending = Sending(url, count, batch=64, destination=TOPIC, connections=8)
    peak = _peak(bus, lambda: not sending.child.running)
    summary = sending.result().summary
    if summary["accepted"] != count:
        raise RuntimeError(f"{count - summary['accepted']:.0f} of {count} messages were not accepted")
    until = time.monotonic() + REST
    return max(peak, _peak(bus, lambda: time.monotonic() > until))


def _peak(bus: Pier, over: Callable[[], bool]) -> float:
    """Return the most MiB resident until ``over``."""
    peak = bus.usage.memory()
    while not over():
        time.sleep(SAMPLE_EVERY)
        peak = max(peak, bus.usage.memory())
    return peak / MIB
