"""Each broker as a transport: publishing beside its bare client, and deliveries beside the direct transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.bare_clients import BARE_CLIENTS
from bench.deliveries import push
from bench.publishing import BATCHES
from bench.report import Row
from bench.run import Run
from bench.systems import DIRECT, BenchedTransport, Pier
from tests.harness.parts import BROKERS
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate, wait_until
from tests.servers import KNOWN

SECTION = "transports"
PUBLISH_TARGET = 0.7
PUBLISHED_WITHIN = 300.0
METRICS_WITHIN = 5.0
SUBSCRIBERS = (1, 4)
WARM_UP = 500


def measure(run: Run) -> list[Row]:
    """Return the rows of publishing and of deliveries for every broker; all brokers are up all the time."""
    with brokers(run) as transports:
        published = [row for transport in transports for row in publishing(run, transport)]
        delivered = [row for subscribers in SUBSCRIBERS for row in deliveries(run, transports, subscribers)]
    return published + delivered


@dataclass(frozen=True)
class Line:
    """A bus whose one destination takes a transport to the given paths of the sink."""

    transport: str
    bus: Pier
    sink: SubscriberProcess
    paths: Sequence[str]

    def push(self, count: int) -> float:
        """Return the deliveries a second of so many messages.

        Raises
        ------
        RuntimeError
            Some of them took another transport, so that the figure would not be this one's.
        """
        admin = self.bus.bus.admin
        before = admin.carried(self.transport)
        rate = push(self.bus, self.sink, self.paths, count).rate
        try:
            wait_until(
                lambda: admin.carried(self.transport) - before == count, within=METRICS_WITHIN, what="a fresh metric"
            )
        except TooLate as error:
            carried = admin.carried(self.transport) - before
            problem = f"{self.transport} carried {carried} of {count} messages; the rest took another transport"
            raise RuntimeError(problem) from error
        return rate


@contextmanager
def brokers(run: Run) -> Iterator[list[BenchedTransport]]:
    """Run every broker."""
    with ExitStack() as stack:
        transports = []
        for name in BARE_CLIENTS:
            run.step(f"starting {name}")
            KNOWN[name].install()
            part = stack.enter_context(BROKERS[name](stack.enter_context(run.place())))
            transports.append(BenchedTransport(name, part.env))
        yield transports


def publishing(run: Run, transport: BenchedTransport) -> list[Row]:
    """Return the rows of a transport beside its bare client, one for each size of a batch."""
    run.step(f"publishing to {transport.name}")
    size = ["--count", run.size.messages // 16, "--windows", 4 * run.size.rounds]
    argv = module("bench.publishing", transport.name, *size)
    with run.place() as folder, Child(argv, log=folder / "log", env=transport.env) as child:
        found = child.ready_line(PUBLISHED_WITHIN)
    beside = BARE_CLIENTS[transport.name].name
    return [
        Row(SECTION, f"{transport.name}: publishes, {batch} a batch", ours, "/s", beside, theirs, PUBLISH_TARGET)
        for batch in BATCHES
        for ours, theirs in [(found[str(batch)]["transport"], found[str(batch)]["bare"])]
    ]


def deliveries(run: Run, transports: Sequence[BenchedTransport], subscribers: int) -> list[Row]:
    """Measure a bus for each transport, all up side by side, in turns."""
    count = run.size.messages // (8 if subscribers > 1 else 4)
    rates: dict[str, list[float]] = {transport.name: [] for transport in (DIRECT, *transports)}
    with ExitStack() as stack:
        sink = stack.enter_context(run.sink())
        lines = [stack.enter_context(_line(run, sink, transport, subscribers)) for transport in (DIRECT, *transports)]
        for line in lines:
            run.step(f"deliveries through {line.transport}, {subscribers} subscribers")
            line.push(WARM_UP)
        for round_ in range(run.size.rounds):
            for line in lines[:: (-1) ** round_]:
                run.step(f"deliveries through {line.transport}, {subscribers} subscribers, round {round_ + 1}")
                rates[line.transport].append(line.push(count))
    with_ = f"{subscribers} subscriber{'s' if subscribers > 1 else ''}"
    return [
        Row(
            SECTION,
            f"{transport.name}: deliveries, {with_}",
            rates[transport.name],
            "/s",
            DIRECT.name,
            rates[DIRECT.name],
        )
        for transport in transports
    ]


@contextmanager
def _line(run: Run, sink: SubscriberProcess, transport: BenchedTransport, subscribers: int) -> Iterator[Line]:
    paths = [f"/{transport.name}-{number}" for number in range(subscribers)]
    # Brokers outlast the buses, so what one bus leaves there must not be another one's.
    topic = f"delivered-{subscribers}"
    with run.bus([sink.url(path) for path in paths], topic=topic, transport=transport) as bus:
        yield Line(transport.name, bus, sink, paths)
