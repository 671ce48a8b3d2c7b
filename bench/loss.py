"""The latency of messages while a broker is killed, away, and coming back.

A destination takes the broker at a steady load; when the broker is lost its messages go the direct way. Four windows of
load follow one another: the broker is well; it is killed in the middle of the load; it is started again under load; it
is well again. Nothing may be lost in any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.load import FIRST_SEQ
from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, Sent, percentile
from bench.systems import DIRECT, BenchedTransport, Pier
from tests.harness.parts import BROKERS, Part
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import KNOWN
from tests.servers.running import LocalServer

SECTION = "broker loss"
TRANSPORTS = ("kafka", "rabbitmq", "nsq")
RATE = 100
HARMED_AFTER, HARMED_AFTER_SHARE = 0.5, 0.25
"""Seconds of load before the kill and before the start, and the most of the window that they may be."""
RETURNING = 15.0
"""Seconds of load while the broker starts and the bus finds it again."""
WARM_UP = 200
METRICS_WITHIN = 10.0
CARRIES_WITHIN = 60.0
ARRIVED_WITHIN = 90.0
WINDOWS = ("well", "lost", "returning", "well again")


class Figures(NamedTuple):
    """Milliseconds from the producer's request to the subscriber's."""

    p50: float
    p99: float
    most: float


def measure(run: Run) -> list[Row]:
    """Return the rows of every broker, each beside the window in which it was well."""
    return [row for name in TRANSPORTS for row in rows_of(run, name)]


def rows_of(run: Run, name: str) -> list[Row]:
    """Return p50, p99 and the longest of each window, for one broker; all of its servers are killed in each round."""
    rounds = []
    for round_ in range(run.size.rounds):
        run.step(f"the loss of {name}, round {round_ + 1}")
        rounds.append(_round(run, name))
    well = [windows[0] for windows in rounds]
    return [
        Row(
            SECTION,
            f"{name} {window}, {figure}",
            [getattr(windows[place], field) for windows in rounds],
            "ms",
            "while it was well",
            [getattr(figures, field) for figures in well],
            lower=True,
        )
        for place, window in enumerate(WINDOWS)
        if place
        for field, figure in (("p50", "p50"), ("p99", "p99"), ("most", "longest"))
    ]


def _round(run: Run, name: str) -> list[Figures]:
    KNOWN[name].install()
    with (
        run.place() as folder,
        BROKERS[name](folder) as broker,
        run.sink() as sink,
        run.bus([sink.url("/s0")], topic="lost", transport=BenchedTransport(name, broker.env)) as bus,
    ):
        return _Loss(name, broker, bus, sink).windows(run.size.seconds)


class _Loss:
    """One bus on one broker, under load while the broker goes and comes."""

    def __init__(self, name: str, broker: Part, bus: Pier, sink: SubscriberProcess) -> None:
        self._name = name
        self._broker = broker
        self._bus = bus
        self._sink = sink
        self._next = FIRST_SEQ

    def windows(self, seconds: float) -> list[Figures]:
        """Return the figures of each window."""
        self._wait_carried()
        self._send(WARM_UP).result()
        well = self._carried_by(self._name, lambda: self._send(RATE * seconds).result())
        lost = self._carried_by(DIRECT.name, lambda: self._harmed(seconds, LocalServer.kill))
        returning = self._harmed(RETURNING, LocalServer.start)
        self._wait_carried()
        again = self._carried_by(self._name, lambda: self._send(RATE * seconds).result())
        windows = (well, lost, returning, again)
        wait_until(
            lambda: all(sent.accepted <= Arrivals(self._sink, "/s0").first.keys() for sent in windows),
            within=ARRIVED_WITHIN,
            what="everything accepted has arrived",
            every=0.5,
        )
        arrivals = Arrivals(self._sink, "/s0")
        return [figures_of(arrivals.latencies(sent)) for sent in windows]

    def _carried_by(self, transport: str, window: Callable[[], Sent]) -> Sent:
        """Return what a window sent, once it is certain that most of it took the way that its figures are of."""
        admin = self._bus.bus.admin
        before = admin.carried(transport)
        sent = window()
        wait_until(
            lambda: admin.carried(transport) - before > len(sent.accepted) / 2,
            within=METRICS_WITHIN,
            what=f"{transport} carried most of {len(sent.accepted)} messages",
        )
        return sent

    def _harmed(self, seconds: float, harm: Callable[[LocalServer], object]) -> Sent:
        """Send for a while, and do something to every server a moment after the load began."""
        sending = self._send(RATE * seconds)
        before = self._sink.count("/s0")
        wait_until(lambda: self._sink.count("/s0") > before, within=ARRIVED_WITHIN, what="the load has begun")
        time.sleep(min(HARMED_AFTER, seconds * HARMED_AFTER_SHARE))
        for server in self._broker.servers:
            harm(server)
        return sending.result()

    def _send(self, messages: float) -> Sending:
        first, self._next = self._next, self._next + int(messages)
        return Sending(self._bus.publish_url, int(messages), first=first, rate=RATE)

    def _wait_carried(self) -> None:
        """Send a few until the broker, and not the direct way, takes them."""

        def carried() -> bool:
            before = self._bus.bus.admin.carried(self._name)
            self._send(RATE).result()
            return self._bus.bus.admin.carried(self._name) > before

        wait_until(carried, within=CARRIES_WITHIN, what=f"{self._name} carries messages")


def figures_of(latencies: Sequence[float]) -> Figures:
    """Return the figures of sorted milliseconds."""
    return Figures(percentile(latencies, 0.5), percentile(latencies, 0.99), latencies[-1])
