"""Each broker as a road: publishing beside its bare client, and deliveries beside the road that needs no broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.bare_clients import BARE_CLIENTS
from bench.deliveries import push
from bench.publishing import BATCHES
from bench.report import Row
from bench.run import Run
from bench.systems import DIRECT, Pier, Road
from tests.harness.parts import BROKERS
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate, wait_until
from tests.servers import KNOWN

SECTION = "roads"
PUBLISH_TARGET = 0.7
PUBLISHED_WITHIN = 300.0
METRICS_WITHIN = 5.0
SUBSCRIBERS = (1, 4)
WARM_UP = 500


def measure(run: Run) -> list[Row]:
    """Return the rows of publishing and of deliveries for every broker; all brokers are up all the time."""
    with brokers(run) as roads:
        published = [row for road in roads for row in publishing(run, road)]
        delivered = [row for subscribers in SUBSCRIBERS for row in deliveries(run, roads, subscribers)]
    return published + delivered


@dataclass(frozen=True)
class Line:
    """A bus whose one destination takes a road to the given paths of the sink."""

    road: str
    bus: Pier
    sink: SubscriberProcess
    paths: Sequence[str]

    def push(self, count: int) -> float:
        """Return the deliveries a second of so many messages.

        Raises
        ------
        RuntimeError
            Some of them took another road, so that the figure would not be this one's.
        """
        admin = self.bus.bus.admin
        before = admin.carried(self.road)
        rate = push(self.bus, self.sink, self.paths, count).rate
        try:
            wait_until(lambda: admin.carried(self.road) - before == count, within=METRICS_WITHIN, what="a fresh metric")
        except TooLate as error:
            carried = admin.carried(self.road) - before
            problem = f"{self.road} carried {carried} of {count} messages; the rest took another road"
            raise RuntimeError(problem) from error
        return rate


@contextmanager
def brokers(run: Run) -> Iterator[list[Road]]:
    """Run every broker."""
    with ExitStack() as stack:
        roads = []
        for name in BARE_CLIENTS:
            run.step(f"starting {name}")
            KNOWN[name].install()
            part = stack.enter_context(BROKERS[name](stack.enter_context(run.place())))
            roads.append(Road(name, part.env))
        yield roads


def publishing(run: Run, road: Road) -> list[Row]:
    """Return the rows of a road beside its bare client, one for each size of a batch."""
    run.step(f"publishing to {road.name}")
    size = ["--count", run.size.messages // 16, "--windows", 4 * run.size.rounds]
    argv = module("bench.publishing", road.name, *size)
    with run.place() as folder, Child(argv, log=folder / "log", env=road.env) as child:
        found = child.ready_line(PUBLISHED_WITHIN)
    beside = BARE_CLIENTS[road.name].name
    return [
        Row(SECTION, f"{road.name}: publishes, {batch} a batch", ours, "/s", beside, theirs, PUBLISH_TARGET)
        for batch in BATCHES
        for ours, theirs in [(found[str(batch)]["road"], found[str(batch)]["bare"])]
    ]


def deliveries(run: Run, roads: Sequence[Road], subscribers: int) -> list[Row]:
    """Measure a bus for each road, all up side by side, in turns."""
    count = run.size.messages // (8 if subscribers > 1 else 4)
    rates: dict[str, list[float]] = {road.name: [] for road in (DIRECT, *roads)}
    with ExitStack() as stack:
        sink = stack.enter_context(run.sink())
        lines = [stack.enter_context(_line(run, sink, road, subscribers)) for road in (DIRECT, *roads)]
        for line in lines:
            run.step(f"deliveries through {line.road}, {subscribers} subscribers")
            line.push(WARM_UP)
        for round_ in range(run.size.rounds):
            for line in lines[:: (-1) ** round_]:
                run.step(f"deliveries through {line.road}, {subscribers} subscribers, round {round_ + 1}")
                rates[line.road].append(line.push(count))
    with_ = f"{subscribers} subscriber{'s' if subscribers > 1 else ''}"
    return [
        Row(SECTION, f"{road.name}: deliveries, {with_}", rates[road.name], "/s", DIRECT.name, rates[DIRECT.name])
        for road in roads
    ]


@contextmanager
def _line(run: Run, sink: SubscriberProcess, road: Road, subscribers: int) -> Iterator[Line]:
    paths = [f"/{road.name}-{number}" for number in range(subscribers)]
    # Brokers outlast the buses, so what one bus leaves there must not be another one's.
    topic = f"delivered-{subscribers}"
    with run.bus([sink.url(path) for path in paths], topic=topic, road=road) as bus:
        yield Line(road.name, bus, sink, paths)
