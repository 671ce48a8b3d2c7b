"""From the producer's request to the subscriber's, at a steady rate."""

from __future__ import annotations

from typing import NamedTuple

from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived

SECTION = "latency"
RATES = (100, 500)
WARM_UP = 200
# The goal at 100 messages a second, in milliseconds (docs/performance.md).
GOAL_RATE, GOAL_P50, GOAL_P99 = 100, 2.5, 7.0


class Figures(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float


def measure(run: Run) -> list[Row]:
    """Return the rows of every rate."""
    return [row for rate in RATES for row in _rows(run, rate)]


def _rows(run: Run, rate: int) -> list[Row]:
    bus: list[Figures] = []
    nsq: list[Figures] = []
    for round_ in range(run.size.rounds):
        run.step(f"latency at {rate} messages a second, round {round_ + 1}")
        bus.append(_of_system(run, "bus", rate))
        nsq.append(_of_system(run, "nsq", rate))
    p50s, p99s = [figures.p50 for figures in bus], [figures.p99 for figures in bus]
    at = f"at {rate}/s"
    rows = [
        Row(SECTION, f"p50 {at}", p50s, "ms", "nsq", [figures.p50 for figures in nsq], 1.0, lower=True),
        Row(SECTION, f"p99 {at}", p99s, "ms", "nsq", [figures.p99 for figures in nsq], 1.0, lower=True),
    ]
    if rate == GOAL_RATE:
        rows.append(against_limit(SECTION, f"p50 {at}", p50s, "ms", GOAL_P50, beside="goal"))
        rows.append(against_limit(SECTION, f"p99 {at}", p99s, "ms", GOAL_P99, beside="goal"))
    return rows


def _of_system(run: Run, name: str, rate: int) -> Figures:
    with run.sink() as sink, run.system(name, [sink.url("/s0")]) as system:
        for count in (WARM_UP, int(rate * run.size.seconds)):
            sink.reset()
            sent = Sending(system.publish_url, count, rate=rate).result()
            wait_arrived(sink, ["/s0"], count)
        found = Arrivals(sink, "/s0").latencies(sent)
    return Figures(percentile(found, 0.5), percentile(found, 0.99))
