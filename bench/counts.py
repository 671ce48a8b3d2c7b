"""The work for one message: fsyncs, hand-overs to threads, tasks, futures, callbacks, statements, records.

None of it is the speed of the machine, so that a step back shows at once. How much of it messages share does depend on
the disk: a fast one commits sooner, and more often.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from bench.instructions import Callgrind
from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import Sending, wait_arrived
from bench.systems import CONCURRENCY, TOPIC
from tests.harness.bus_process import BusProcess
from tests.harness.counts import Counts, CountsFile
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SECTION: Final = "counts"
CLOSED_LOOP: Final = 0
"""The rate of a load that sends as fast as answers come."""
NAMES: Final = {100: "100/s", 500: "500/s", CLOSED_LOOP: "closed loop"}
# For one message with one subscriber.
LIMITS: Final[dict[int, dict[str, float]]] = {
    100: {"commits": 1.7, "tasks": 0.5, "futures": 2.6, "records": 2.1},
    500: {"commits": 1.3, "tasks": 0.3, "futures": 1.7, "records": 2.1},
    CLOSED_LOOP: {"commits": 0.15, "tasks": 0.3, "futures": 0.3, "records": 2.1},
}
_INSTRUCTIONS: Final = 450_000
_WARM_UP: Final = 200
_CONNECTIONS: Final = 32
_INSTRUCTED: Final = 1_000  # under valgrind, which makes all of it fifty times slower


class LoadedBus:
    """A bus with one destination and one subscription on the direct transport, to be sent messages to."""

    def __init__(self, bus: BusProcess, sink: SubscriberProcess) -> None:
        self.bus = bus
        self._sink = sink

    def __enter__(self) -> Self:
        self.bus.start()
        self.bus.admin.destination(TOPIC)
        self.bus.admin.subscription(TOPIC, "s0", self._sink.url("/s0"), max_concurrency=CONCURRENCY)
        self.push(_WARM_UP, CLOSED_LOOP)
        return self

    def __exit__(self, *_: object) -> None:
        self.bus.close()

    def push(self, count: int, rate: int) -> None:
        """Return when so many messages were sent and delivered."""
        self._sink.reset()
        options = {"rate": rate, "connections": _CONNECTIONS}
        Sending(f"{self.bus.url}/v1/messages/{TOPIC}", count, **options).result()
        wait_arrived(self._sink, ["/s0"], count)


class CountedBus(LoadedBus):
    """A bus that counts."""

    def __init__(self, folder: Path, sink: SubscriberProcess) -> None:
        self._file = CountsFile(folder)
        self._pushed = 0
        super().__init__(BusProcess(folder / "bus", env=self._file.env, instead=self._file.instead), sink)

    def push(self, count: int, rate: int) -> None:
        """Return when so many messages were sent and delivered, and their outcomes recorded."""
        super().push(count, rate)
        self._pushed += count
        wait_until(lambda: self._file.read().records >= 2 * self._pushed, within=30.0, what="a record of each outcome")

    def count(self, count: int, rate: int) -> Counts:
        """Have messages delivered, and return what one of them cost."""
        before = self._file.read()
        self.push(count, rate)
        return self._file.read().since(before, count)


@contextmanager
def counted_bus(folder: Path) -> Iterator[CountedBus]:
    """Run a bus that counts, and its subscriber."""
    with SubscriberProcess(folder, tally=True) as sink, CountedBus(folder, sink) as bus:
        yield bus


def measure(run: Run) -> list[Row]:
    """Return a row for each count and load, and one for the instructions."""
    found: dict[int, list[Counts]] = {rate: [] for rate in NAMES}
    with run.place() as folder, counted_bus(folder) as bus:
        for round_ in range(run.size.rounds):
            for rate, name in NAMES.items():
                run.step(f"counts at {name}, round {round_ + 1}")
                count = int(rate * run.size.seconds) if rate else run.size.messages
                found[rate].append(bus.count(count, rate))
    rows = [_row(rate, counter, found[rate]) for rate in NAMES for counter in Counts._fields]
    run.step("instructions, under valgrind")
    figure = f"user-space instructions a message, {NAMES[CLOSED_LOOP]}"
    return [*rows, against_limit(SECTION, figure, [instructed(run)], "", _INSTRUCTIONS)]


def instructed(run: Run) -> float:
    """Return the instructions that the bus spends on a message in the closed loop."""
    with run.place() as folder, run.sink() as sink:
        callgrind = Callgrind(folder)
        with LoadedBus(BusProcess(folder / "bus", under=callgrind.argv), sink) as loaded:
            callgrind.begin(loaded.bus.pid)
            loaded.push(_INSTRUCTED, CLOSED_LOOP)
            return callgrind.end(loaded.bus.pid) / _INSTRUCTED


def _row(rate: int, counter: str, found: list[Counts]) -> Row:
    values = [getattr(counts, counter) for counts in found]
    figure = f"{counter.replace('_', '-')} a message, {NAMES[rate]}"
    limit = LIMITS[rate].get(counter)
    if limit is None:
        return Row(SECTION, figure, values, "", "", values)
    return against_limit(SECTION, figure, values, "", limit)
