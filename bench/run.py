"""The context of every section: a folder, the size of the run, and its progress."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.systems import BenchedTransport, Nsq, Pier, System
from tests.harness.subscribers import SubscriberProcess


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes
    ----------
    messages
        Of a throughput round.
    seconds
        Of a paced one.
    backlog, subscribers, processes, rate
        The most of each; curves go up to it.
    """

    messages: int
    seconds: float
    backlog: int
    rounds: int = 3
    subscribers: int = 64
    processes: int = 4
    rate: int = 50_000


QUICK = Size(messages=5_000, seconds=2.0, backlog=50_000, subscribers=4, processes=2, rate=1_000)
NORMAL = Size(messages=20_000, seconds=5.0, backlog=200_000)
FULL = Size(messages=20_000, seconds=10.0, backlog=1_000_000)


@dataclass(frozen=True)
class Run:
    """One run of the benchmarks; ``nsq`` is the folder of its programs, ``pictures`` that of what curves draw."""

    folder: Path
    size: Size
    nsq: Path
    step: Callable[[str], None]
    pictures: Path | None = None

    @contextmanager
    def sink(self, *paths: str, batches: bool = False) -> Iterator[SubscriberProcess]:
        """Run a subscriber that only counts, messages of ``batches`` if so."""
        with self.place() as folder, SubscriberProcess(folder, *paths, tally=True, batches=batches) as sink:
            yield sink

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Give a folder for a while."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            yield Path(name)

    @contextmanager
    def system(self, name: str, urls: Sequence[str], **fields: Any) -> Iterator[System]:
        """Run a system with a subscription for each URL; ``fields`` are those of the bus's subscriptions."""
        with self.place() as folder:
            made: System = Nsq(folder, urls, self.nsq) if name == Nsq.name else Pier(folder, urls, **fields)
            with closing(made) as system:
                yield system.start()

    @contextmanager
    def bus(self, urls: Sequence[str], *, topic: str, transport: BenchedTransport) -> Iterator[Pier]:
        """Run a bus whose destination takes a transport, with a subscription for each URL."""
        with self.place() as folder, closing(Pier(folder, urls, topic=topic, transport=transport)) as bus:
            yield bus.start()
