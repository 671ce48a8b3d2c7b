"""Isolation: what one subscriber that hangs does to the others.

Two buses run side by side with the same subscribers, one of them with a hung one more, and short windows of load
alternate between them; so both see the same machine, and nothing of the hung one's work is in the other's windows.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

from bench.load import FIRST_SEQ
from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived
from bench.systems import Pier, System
from tests.harness.subscribers import SubscriberProcess

SECTION = "isolation"
HUNG = "/hung=delay:8"
OTHERS = ("a", "b")
RATE = 200
WARM_UP = 400
P50_TARGET, P99_TARGET = 1.1, 1.5


class Pair(NamedTuple):
    """Two windows, one after the other: milliseconds of the other subscribers without and with the hung one."""

    p50_without: float
    p99_without: float
    p50_with: float
    p99_with: float


def measure(run: Run) -> list[Row]:
    """Return the rows for the others' p50 and p99; a round is a pair of windows."""
    run.step("isolation")
    return rows(compare(run, windows=4 * run.size.rounds, seconds=run.size.seconds / 2))


def rows(pairs: list[Pair]) -> list[Row]:
    """Return one row for the p50 and one for the p99, with the median ratio of all pairs."""
    beside = "without the hung one"
    p50 = [pair.p50_with for pair in pairs], [pair.p50_without for pair in pairs]
    p99 = [pair.p99_with for pair in pairs], [pair.p99_without for pair in pairs]
    return [
        Row(SECTION, f"others' p50 at {RATE}/s", p50[0], "ms", beside, p50[1], P50_TARGET, lower=True),
        Row(SECTION, f"others' p99 at {RATE}/s", p99[0], "ms", beside, p99[1], P99_TARGET, lower=True),
    ]


def compare(run: Run, *, windows: int, seconds: float) -> list[Pair]:
    """Alternate windows of load between a bus without and a bus with a hung subscriber."""
    with ExitStack() as stack:
        sink = stack.enter_context(run.sink(HUNG))
        without_paths = [f"/{name}-without" for name in OTHERS]
        with_paths = [f"/{name}-with" for name in OTHERS]
        without = stack.enter_context(run.system(Pier.name, [sink.url(path) for path in without_paths]))
        with_ = stack.enter_context(run.system(Pier.name, [sink.url(path) for path in [*with_paths, "/hung"]]))
        _window(without, sink, without_paths, FIRST_SEQ, WARM_UP)
        _window(with_, sink, with_paths, FIRST_SEQ, WARM_UP)
        count = int(RATE * seconds)
        pairs = []
        for window in range(windows):
            first = FIRST_SEQ + WARM_UP + window * count
            turns = [(without, without_paths), (with_, with_paths)]
            # Every other pair in the opposite order, so that what drifts meets both sides alike.
            found = [_window(system, sink, paths, first, count) for system, paths in turns[:: (-1) ** window]]
            plain, hung = found[:: (-1) ** window]
            pairs.append(Pair(*plain, *hung))
        return pairs


def _window(system: System, sink: SubscriberProcess, paths: list[str], first: int, count: int) -> tuple[float, float]:
    """Send for a while and return p50 and p99 over the paths."""
    before = sum(sink.count(path) for path in paths) // len(paths)
    sent = Sending(system.publish_url, count, first=first, rate=RATE).result()
    wait_arrived(sink, paths, before + count)
    found = sorted(value for path in paths for value in Arrivals(sink, path).latencies(sent))
    return percentile(found, 0.5), percentile(found, 0.99)
