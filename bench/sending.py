"""Runs the load generator, and matches what it sent with what arrived at the sink."""

from __future__ import annotations

import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.load import FIRST_SEQ
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate

STALLED_AFTER = 30.0


class Sent(NamedTuple):
    """When each message was sent and answered (monotonic seconds, 0.0 for never), and the generator's summary."""

    first: int
    sent: array[float]
    answered: array[float]
    summary: dict[str, float]

    @property
    def began(self) -> float:
        """When the first message was sent."""
        return min(time for time in self.sent if time)

    @property
    def accepted(self) -> set[int]:
        """The sequence numbers that were acknowledged."""
        return {self.first + index for index, time in enumerate(self.answered) if time}


class Sending:
    """A load generator at work; options are those of ``bench.load``."""

    def __init__(self, url: str, count: int, *, first: int = FIRST_SEQ, **options: object) -> None:
        self._first = first
        self._folder = tempfile.TemporaryDirectory(prefix="bus-bench-")
        self._times = Path(self._folder.name) / "times"
        given = [text for name, value in options.items() if value for text in (f"--{name}", str(value))]
        argv = module("bench.load", "--url", url, "--count", count, "--first", first, "--times", self._times, *given)
        self.child = Child(argv, log=Path(self._folder.name) / "log").start()

    def result(self, within: float = 900) -> Sent:
        """Wait for its end and return what it sent."""
        summary = self.child.ready_line(within)
        self.child.wait(10)
        sent, answered = array("d"), array("d")
        words = self._times.read_bytes()
        sent.frombytes(words[: len(words) // 2])
        answered.frombytes(words[len(words) // 2 :])
        self._folder.cleanup()
        return Sent(self._first, sent, answered, summary)


class Arrivals:
    """First arrivals at one path of the sink, by sequence number, and how many came again."""

    def __init__(self, sink: SubscriberProcess, path: str) -> None:
        self.first: dict[int, float] = {}
        seqs, self.times = sink.tally(path)
        for seq, at in zip(seqs, self.times, strict=True):
            self.first.setdefault(seq, at)
        self.repeated = len(seqs) - len(self.first)

    def latencies(self, sent: Sent) -> list[float]:
        """Return, sorted, the milliseconds from each message's sending to its first arrival."""
        pairs = ((at, self.first.get(sent.first + index)) for index, at in enumerate(sent.sent))
        return sorted((arrived - at) * 1000 for at, arrived in pairs if arrived is not None)


def wait_arrived(sink: SubscriberProcess, paths: Sequence[str], count: int) -> None:
    """Return when every path has ``count`` calls; raises TooLate when nothing arrives any more."""
    seen, since = 0, time.monotonic()
    while (now := sum(sink.count(path) for path in paths)) < count * len(paths):
        if now > seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > STALLED_AFTER:
            raise TooLate(f"{now} of {count * len(paths)} deliveries, none in the last {STALLED_AFTER:g} s")
        time.sleep(0.05)


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, NaN when there are none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")
