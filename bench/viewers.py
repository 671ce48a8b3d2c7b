"""The cost of a hundred people who keep the overview open, for deliveries and processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived
from bench.systems import Pier
from tests.harness.process import Child, module

SECTION = "viewers"
RATE = 500
VIEWERS = 100
WARM_UP = 500
MOST = 1.5
_LOOKING_WITHIN = 120.0


class Figures(NamedTuple):
    """Latencies in milliseconds; ``cpu`` in percent of a core."""

    p50: float
    p99: float
    cpu: float


def measure(run: Run) -> list[Row]:
    """Return the rows of deliveries with and without viewers."""
    alone: list[Figures] = []
    seen: list[Figures] = []
    for round_ in range(run.size.rounds):
        run.step(f"{RATE} messages a second and {VIEWERS} viewers, round {round_ + 1}")
        alone.append(_round(run, viewers=0))
        seen.append(_round(run, viewers=VIEWERS))
    figure = f"at {RATE}/s, {VIEWERS} viewers"
    return [
        Row(SECTION, f"p50 {figure}", [one.p50 for one in seen], "ms", "none", [one.p50 for one in alone], lower=True),
        Row(
            SECTION,
            f"p99 {figure}",
            [one.p99 for one in seen],
            "ms",
            "none",
            [one.p99 for one in alone],
            MOST,
            lower=True,
        ),
        Row(
            SECTION,
            f"CPU {figure}",
            [one.cpu for one in seen],
            "% of a core",
            "none",
            [one.cpu for one in alone],
            lower=True,
        ),
    ]


def _round(run: Run, *, viewers: int) -> Figures:
    with run.sink() as sink, run.system("bus", [sink.url("/s0")]) as system:
        assert isinstance(system, Pier)
        with _looking(run, system.bus.url, viewers):
            Sending(system.publish_url, WARM_UP, rate=RATE).result()
            wait_arrived(sink, ["/s0"], WARM_UP)
            sink.reset()
            before, count = system.usage.cpu(), int(RATE * run.size.seconds * 4)
            sent = Sending(system.publish_url, count, rate=RATE).result()
            wait_arrived(sink, ["/s0"], count)
            cpu = (system.usage.cpu() - before) / (count / RATE) * 100
            found = Arrivals(sink, "/s0").latencies(sent)
    return Figures(percentile(found, 0.5), percentile(found, 0.99), cpu)


@contextmanager
def _looking(run: Run, url: str, viewers: int) -> Iterator[None]:
    if not viewers:
        yield
        return
    argv = module("bench.looking", "--url", url, "--viewers", viewers)
    with run.place() as folder, Child(argv, log=folder / "log") as child:
        child.ready_line(_LOOKING_WITHIN)
        yield
