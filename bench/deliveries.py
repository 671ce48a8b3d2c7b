"""End to end: as many messages as the system takes, until the last subscriber has the last one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, wait_arrived
from bench.systems import System
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess

SECTION = "end to end"
WARM_UP = 500
LEAST = 100
"""Messages of a round, however many deliveries each of them makes."""
BATCH = 100
BATCH_PERMITS = 16
CORES = len(os.sched_getaffinity(0))
# Deliveries a second and processor time beside nsqd + nsq_to_http, by number of subscribers (docs/performance.md).
RATE_TARGET = {1: 1.2, 4: 1.4}
CPU_TARGET = {1: 0.27 / 0.32, 4: 0.14 / 0.22}


class Figures(NamedTuple):
    """Deliveries a second, and processor seconds for 1,000 of them."""

    rate: float
    cpu: float


def measure(run: Run) -> list[Row]:
    """Return the rows for 1 and 4 subscribers, and for one that takes batches."""
    return [row for subscribers in (1, 4) for row in _rows(run, subscribers)] + _batch_rows(run)


def _rows(run: Run, subscribers: int) -> list[Row]:
    bus: list[Figures] = []
    all_cores: list[Figures] = []
    nsq: list[Figures] = []
    bare: list[Figures] = []
    for round_ in range(run.size.rounds):
        run.step(f"end to end, {subscribers} subscribers, round {round_ + 1}")
        bus.append(deliver(run, "bus", subscribers))
        all_cores.append(deliver(run, "bus", subscribers, processes=CORES))
        nsq.append(deliver(run, "nsq", subscribers))
        bare.append(_of_bare_loop(run, subscribers))
    with_ = f"{subscribers} subscriber{'s' if subscribers > 1 else ''}"
    rates = [figures.rate for figures in bus]
    cpus = [figures.cpu for figures in bus]
    of_all, of_nsq = [figures.rate for figures in all_cores], [figures.rate for figures in nsq]
    return [
        Row(SECTION, f"deliveries, {with_}", rates, "/s", "nsq", of_nsq, RATE_TARGET[subscribers]),
        Row(SECTION, f"the same with {CORES} processes", of_all, "/s", "nsq", of_nsq, RATE_TARGET[subscribers]),
        Row(SECTION, f"deliveries, {with_}", rates, "/s", "bare HttpPoster loop", [f.rate for f in bare]),
        Row(
            SECTION,
            f"CPU for 1,000 deliveries, {with_}",
            cpus,
            "s",
            "nsq",
            [f.cpu for f in nsq],
            CPU_TARGET[subscribers],
            lower=True,
        ),
    ]


def _batch_rows(run: Run) -> list[Row]:
    """Return what batches make of it, for messages that come and those that waited; the permits let them fill."""
    batches = {"batch": BATCH, "max_concurrency": BATCH_PERMITS}
    found: dict[str, list[Figures]] = {"coming": [], "waiting": [], "coming alone": [], "waiting alone": []}
    for round_ in range(run.size.rounds):
        run.step(f"end to end, batches of {BATCH}, round {round_ + 1}")
        found["coming"].append(deliver(run, "bus", 1, **batches))
        found["coming alone"].append(deliver(run, "bus", 1))
        found["waiting"].append(drain(run, "bus", run.size.messages, **batches))
        found["waiting alone"].append(drain(run, "bus", run.size.messages))
    rows = []
    for figure, what in (("deliveries", "coming"), ("deliveries of a backlog", "waiting")):
        of, alone = found[what], found[f"{what} alone"]
        name = f"{figure}, 1 subscriber, batch {BATCH}"
        rows.append(Row(SECTION, name, [one.rate for one in of], "/s", "one at a time", [one.rate for one in alone]))
        cpu = [one.cpu for one in of], [one.cpu for one in alone]
        rows.append(Row(SECTION, f"CPU for 1,000 {name}", cpu[0], "s", "one at a time", cpu[1], lower=True))
    return rows


def messages_of(deliveries: int, subscribers: int) -> int:
    """Return how many messages a round sends: as many deliveries, and twice as many to several subscribers."""
    return max(LEAST, deliveries * (2 if subscribers > 1 else 1) // subscribers)


def deliver(run: Run, name: str, subscribers: int, **fields: object) -> Figures:
    """Start a system and return how fast it delivers what is sent as fast as it is taken."""
    paths = [f"/s{number}" for number in range(subscribers)]
    with (
        run.sink(batches="batch" in fields) as sink,
        run.system(name, [sink.url(path) for path in paths], **fields) as system,
    ):
        push(system, sink, paths, WARM_UP)
        return push(system, sink, paths, messages_of(run.size.messages, subscribers))


def drain(run: Run, name: str, backlog: int, **fields: object) -> Figures:
    """Start a system and return how fast it delivers what waited while its subscriber was paused."""
    with run.sink(batches="batch" in fields) as sink, run.system(name, [sink.url("/s0")], **fields) as system:
        push(system, sink, ["/s0"], WARM_UP)
        system.pause(is_paused=True)
        sink.reset()
        Sending(system.publish_url, backlog).result()
        before = system.usage.cpu()
        began = time.monotonic()
        system.pause(is_paused=False)
        wait_arrived(sink, ["/s0"], backlog)
        cpu = system.usage.cpu() - before
        ended = max(Arrivals(sink, "/s0").first.values())
    return Figures(backlog / (ended - began), cpu / backlog * 1000)


def push(system: System, sink: SubscriberProcess, paths: Sequence[str], count: int) -> Figures:
    """Send messages as fast as they are taken and wait for the last delivery."""
    sink.reset()
    before = system.usage.cpu()
    sent = Sending(system.publish_url, count).result()
    wait_arrived(sink, paths, count)
    cpu = system.usage.cpu() - before
    arrivals = [Arrivals(sink, path) for path in paths]
    deliveries = sum(len(arrived.first) for arrived in arrivals)
    ended = max(max(arrived.first.values()) for arrived in arrivals)
    return Figures(deliveries / (ended - sent.began), cpu / deliveries * 1000)


def _of_bare_loop(run: Run, subscribers: int) -> Figures:
    with run.sink() as sink, run.place() as folder:
        urls = [sink.url(f"/s{number}") for number in range(subscribers)]
        count = messages_of(run.size.messages, subscribers)
        with Child(module("bench.bare_loop", "--count", count, *urls), log=folder / "log") as loop:
            found = loop.ready_line(120)
    return Figures(found["per_second"], found["cpu_per_1000"])
