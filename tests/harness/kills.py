"""A run in which the producer's process and the bus are killed again and again, and its history."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.harness.bus_process import BusProcess
from tests.harness.checker import Faults, Judgement, check
from tests.harness.history import merge, read_history, write_history
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate, wait_until

DESTINATION = "orders"
PATHS = ("/fast", "/slow", "/flaky")
# Room before the first and after the last kill, as shares of all messages.
EARLIEST, LATEST = 0.05, 0.9


@dataclass(frozen=True)
class Plan:
    """How many messages at which rate, and how often each side is killed."""

    messages: int
    rate: float
    kills: int
    seed: int
    max_concurrency: int = 16
    drain_within: float = 60.0


class Progress:
    """How many sends a producer has tried, read from the end of its history."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.tried = 0

    def update(self) -> int:
        """Read what is new and return the count."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            self.tried += new.count(b'"invoke"')
        return self.tried


class Victim:
    """Kills when the run has come as far as its next threshold; all chosen at the beginning, from the seed."""

    def __init__(self, plan: Plan, dice: random.Random, kill: Callable[[], None]) -> None:
        places = range(int(plan.messages * EARLIEST), int(plan.messages * LATEST))
        self._thresholds = sorted(dice.sample(places, plan.kills))
        self._kill = kill
        self.kills = 0

    @property
    def spared(self) -> bool:
        """Whether all kills are done."""
        return self.kills == len(self._thresholds)

    def strike(self, progress: int) -> bool:
        """Kill if it is time; return whether that happened."""
        if self.spared or progress < self._thresholds[self.kills]:
            return False
        self._kill()
        self.kills += 1
        return True


class KillRun:
    """One run below a folder, on request with one of ``tests.harness.planted``'s bugs; ``run`` tells how it went."""

    def __init__(self, folder: Path, plan: Plan, *, planted: str | None = None) -> None:
        self.plan = plan
        self._folder = folder
        self._history = folder / "producer.jsonl"
        self._dice = random.Random(plan.seed)
        self.bus = BusProcess(folder / "data", log=folder / "bus.log", planted=planted)
        self.subscriber = SubscriberProcess(folder, "/slow=delay:0.02", "/flaky=fail:0.05")
        self._producer = Child([], log=folder / "producer.log")

    def run(self) -> Judgement:
        """Send, kill, wait until everything is final, and judge."""
        with self.subscriber, self.bus:
            self._configure()
            self._producer = self._new_producer().start()
            try:
                self._send_and_kill()
                drained = self._drain()
            finally:
                self._producer.kill()
        return self._judge(drained=drained)

    def _configure(self) -> None:
        self.bus.admin.destination(DESTINATION)
        for path in PATHS:
            fields = {"max_concurrency": self.plan.max_concurrency, "retry": ["200ms", "1s"]}
            self.bus.admin.subscription(DESTINATION, path.strip("/"), self.subscriber.url(path), **fields)

    def _new_producer(self) -> Child:
        plan = self.plan
        options = "--url", self.bus.url, "--spool", self._folder / "spool", "--history", self._history
        load = "--destination", DESTINATION, "--count", plan.messages, "--rate", plan.rate
        return Child(module("tests.harness.producer", *options, *load), log=self._folder / "producer.log")

    def _send_and_kill(self) -> None:
        progress = Progress(self._history)
        bus = Victim(self.plan, self._dice, self._kill_bus)
        producer = Victim(self.plan, self._dice, self._kill_producer)

        def over() -> bool:
            tried = progress.update()
            bus.strike(tried)
            producer.strike(tried)
            self._producer.check_running()
            return bus.spared and producer.spared and tried >= self.plan.messages

        within = 30 + 3 * self.plan.messages / self.plan.rate + 10 * self.plan.kills
        wait_until(over, within=within, what="everything sent and all kills done", every=0.01)
        self._producer.ready_line(30)

    def _kill_bus(self) -> None:
        self.bus.kill()
        self.bus.start()

    def _kill_producer(self) -> None:
        self._producer.kill()
        self._producer.start()

    def _drain(self) -> bool:
        acknowledged = {event.id for event in read_history(self._history) if event.type == "ok"}
        try:
            self.bus.admin.wait_drained(DESTINATION, acknowledged, within=self.plan.drain_within)
        except TooLate as error:
            print(error)
            return False
        return True

    def _judge(self, *, drained: bool) -> Judgement:
        history = merge(read_history(self._history), self.subscriber.calls())
        write_history(self._folder / "history.jsonl", history)
        # In flight at a crash: requests, and outcomes that wait for their commit, each at most max_concurrency.
        faults = Faults(crashes=self.plan.kills, window=2 * self.plan.max_concurrency)
        return check(history, subscriptions=PATHS, drained=drained, faults=faults)
