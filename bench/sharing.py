"""Slots that the processes of one port share: how late messages are with several processes beside one.

Buses of one and of several processes run side by side, and short windows of the same load take turns, so that all see
the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final, NamedTuple

from bench.load import FIRST_SEQ
from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived
from bench.systems import Pier
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess

SECTION: Final = "sharing"
PROCESSES: Final = (1, 2, 4)
P99_TARGET: Final = 1.5
CONNECTIONS: Final = 8
WARM_UP: Final = 1.0
"""Seconds of the first window, whose figures do not count."""


class Case(NamedTuple):
    """A load, and its subscribers.

    Attributes
    ----------
    delays
        How many seconds each subscriber takes.
    rate
        Messages a second, over 8 connections.
    is_uneven
        Whether one process gets all the connections; otherwise the system spreads them.
    keys
        How many keys the messages have whose order is kept; 0 for no order.
    fields
        Of the subscriptions.
    """

    name: str
    delays: tuple[float, ...]
    rate: int
    fields: Mapping[str, Any]
    is_uneven: bool = False
    keys: int = 0

    @property
    def code(self) -> str:
        """The code of its destination."""
        return self.name.replace(" ", "-")

    def path(self, processes: int, subscriber: int) -> str:
        """Return the path of a subscriber of one bus."""
        return f"/{self.code}-{processes}-{subscriber}"


CASES: Final = (
    Case("uneven connections", (0.05,), 280, {"max_concurrency": 16}, is_uneven=True),
    Case("one slow of four", (0.05, 0.0, 0.0, 0.0), 280, {"max_concurrency": 16}),
    Case("limit 1", (0.0,), 280, {"max_concurrency": 1}),
    Case("limit 2", (0.005,), 250, {"max_concurrency": 2}),
    Case("limit 4", (0.01,), 280, {"max_concurrency": 4}),
    Case("limit 16", (0.05,), 280, {"max_concurrency": 16}),
    Case("limit 64", (0.2,), 280, {"max_concurrency": 64}),
    Case("rate 300", (0.0,), 280, {"max_concurrency": 16, "rate": 300}, is_uneven=True),
    Case("ordered keys", (0.005,), 280, {"max_concurrency": 16}, keys=100),
)


def measure(run: Run) -> list[Row]:
    """Return a row for each case and number of processes above one."""
    counts = [count for count in PROCESSES if count <= run.size.processes]
    found = compare(run, counts, CASES)
    return [
        Row(SECTION, f"p99, {name}, {count} processes", of[count], "ms", "1 process", of[1], P99_TARGET, lower=True)
        for name, of in found.items()
        for count in counts[1:]
    ]


def compare(run: Run, counts: list[int], cases: tuple[Case, ...]) -> dict[str, dict[int, list[float]]]:
    """Return the p99 of every window in milliseconds, by case and number of processes."""
    with ExitStack() as stack:
        sink = stack.enter_context(run.sink(*(f"{path}=delay:{delay}" for path, delay in _delays(counts, cases))))
        buses = {count: stack.enter_context(_started(run, sink, count, cases)) for count in counts}
        found: dict[str, dict[int, list[float]]] = {}
        for case in cases:
            windows = found[case.name] = {count: list[float]() for count in counts}
            for window in range(2 * run.size.rounds + 1):
                for count in counts[:: (-1) ** window]:
                    run.step(f"{case.name}, {count} processes, window {window}")
                    p99 = _window(buses[count], sink, case, count, run.size.seconds / 2 if window else WARM_UP)
                    windows[count] += [p99] if window else []
        return found


def _delays(counts: list[int], cases: tuple[Case, ...]) -> list[tuple[str, float]]:
    return [
        (case.path(count, number), delay)
        for case in cases
        for count in counts
        for number, delay in enumerate(case.delays)
    ]


@contextmanager
def _started(run: Run, sink: SubscriberProcess, count: int, cases: tuple[Case, ...]) -> Iterator[Pier]:
    with run.place() as folder, closing(Pier(folder, [], processes=count)) as bus:
        admin = bus.start().bus.admin
        for case in cases:
            admin.destination(case.code, ordering="key" if case.keys else "none")
            for number in range(len(case.delays)):
                admin.subscription(case.code, f"s{number}", sink.url(case.path(count, number)), **case.fields)
        yield bus


def _window(bus: Pier, sink: SubscriberProcess, case: Case, count: int, seconds: float) -> float:
    """Send for a while and return the p99 over all subscribers."""
    paths, messages = [case.path(count, number) for number in range(len(case.delays))], int(case.rate * seconds)
    sink.reset()
    url = _last_of(bus.bus) if case.is_uneven and isinstance(bus.bus, ProcessGroup) else bus.bus.url
    sent = Sending(
        f"{url}/v1/messages/{case.code}",
        messages,
        first=FIRST_SEQ,
        rate=case.rate,
        connections=CONNECTIONS,
        keys=case.keys,
    ).result()
    wait_arrived(sink, paths, messages)
    return percentile(sorted(late for path in paths for late in Arrivals(sink, path).latencies(sent)), 0.99)


def _last_of(bus: ProcessGroup) -> str:
    """Return the URL of the last process alone."""
    places = bus.places()
    return places[max(places)][1]
