"""p99 over the load, up to the one that a system no longer keeps up with.

Messages are due on schedule, and each is as late as it arrives after it was due: a system that takes them slowly
cannot make itself look fast by having them sent later.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from bench.curves.curve import LABELS, SECTION, SYSTEMS, Curve, Line, rows, up_to
from bench.deliveries import WARM_UP, push
from bench.load import FIRST_SEQ
from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived
from bench.systems import Nsq, Pier, System
from tests.harness.subscribers import SubscriberProcess

POINTS = (50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000)
"""Messages a second."""
IN_TIME = 0.95
"""The share of messages that must arrive in time for a system to keep up."""
QUEUED, LEAST_QUEUED = 0.1, 0.5
"""What comes later than this share of the window, and than these seconds, waits in a queue that only grows."""


class Window(NamedTuple):
    """What came of one load: the share that arrived in time, and the p99 in milliseconds."""

    in_time: float
    p99: float


def measure(run: Run) -> list[Row]:
    """Return a row for each load that both keep up with, one for the most of each, and draw the curve."""
    with ExitStack() as stack:
        ladders = {name: stack.enter_context(_opened(run, name)) for name in SYSTEMS}
        for rate in up_to(run.size.rate, *POINTS):
            for round_ in range(run.size.rounds):
                for name in SYSTEMS[:: (-1) ** round_]:
                    if ladders[name].goes_on(rate):
                        run.step(f"p99 at {rate:,} messages a second, {LABELS[name]}, round {round_ + 1}")
                        ladders[name].climb(rate, run.size.seconds)
    kept = {name: ladder.kept for name, ladder in ladders.items()}
    p99s = {name: {rate: [window.p99 for window in windows] for rate, windows in kept[name].items()} for name in kept}
    Curve(
        "load",
        "p99 from the producer's request to the subscriber's, over load",
        "messages a second, one subscriber; each line ends at the most that is kept up with",
        "p99, milliseconds",
        [Line(LABELS[name], p99s[name], is_reference=name == Nsq.name) for name in SYSTEMS if p99s[name]],
        is_log=True,
    ).save(run)
    most = {name: [float(max(kept[name], default=0))] for name in SYSTEMS}
    return [
        *rows(lambda rate: f"p99 at {rate:,}/s", "ms", p99s[Pier.name], p99s[Nsq.name], lower=True),
        Row(SECTION, "the highest load kept up with", most[Pier.name], "/s", Nsq.name, most[Nsq.name]),
    ]


@contextmanager
def _opened(run: Run, name: str) -> Iterator[Ladder]:
    with run.sink() as sink, run.system(name, [sink.url("/s0")]) as system:
        push(system, sink, ["/s0"], WARM_UP)
        yield Ladder(system, sink)


@dataclass
class Ladder:
    """One system under loads that rise until it no longer keeps up."""

    system: System
    sink: SubscriberProcess
    windows: dict[int, list[Window]] = field(default_factory=dict)

    def goes_on(self, rate: int) -> bool:
        """Whether every lower load was kept up with."""
        return all(keeps_up(windows) for lower, windows in self.windows.items() if lower < rate)

    def climb(self, rate: int, seconds: float) -> None:
        """Send at a rate for a while, and wait until all has arrived."""
        count = int(rate * seconds)
        self.windows.setdefault(rate, []).append(self._window(count, rate, max(seconds * QUEUED, LEAST_QUEUED)))

    def _window(self, count: int, rate: int, in_time: float) -> Window:
        self.sink.reset()
        sent = Sending(self.system.publish_url, count, rate=rate).result()
        wait_arrived(self.sink, ["/s0"], count)
        return window_of(lateness(sent.began, rate, Arrivals(self.sink, "/s0").first), count, in_time)

    @property
    def kept(self) -> dict[int, list[Window]]:
        """The loads that were kept up with."""
        return dict(takewhile(lambda item: keeps_up(item[1]), self.windows.items()))


def lateness(began: float, rate: float, arrivals: Mapping[int, float]) -> list[float]:
    """Return, sorted, the seconds from when each message was due to its arrival; the first is due at ``began``."""
    return sorted(at - began - (seq - FIRST_SEQ) / rate for seq, at in arrivals.items())


def window_of(late: Sequence[float], count: int, in_time: float) -> Window:
    """Return the share of ``count`` messages that were no later than so many seconds, and their p99."""
    return Window(sum(seconds <= in_time for seconds in late) / count, percentile(late, 0.99) * 1000)


def keeps_up(windows: Sequence[Window]) -> bool:
    """Whether enough arrived in time: the median of all rounds, since a neighbour may spoil one."""
    return statistics.median(window.in_time for window in windows) >= IN_TIME
