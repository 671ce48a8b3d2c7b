"""A run in which the producer's process, the bus and what it stands on are harmed again and again, and its history."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.harness.bus_process import BusProcess
from tests.harness.checker import Faults, Judgement, Span, check
from tests.harness.cluster import Cluster
from tests.harness.history import merge, read_history, write_history
from tests.harness.moved_clock import MovedClock
from tests.harness.process import Child, module
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate, wait_until
from tests.proofs.figures import Figures, note

DESTINATION = "orders"
PATHS = ("/fast", "/slow=delay:0.02", "/flaky=fail:0.05")
# Room before the first and after the last kill, as shares of all messages.
EARLIEST, LATEST = 0.05, 0.9
# What is done to a broker or a store has effects until leases and retries of the bus are over, in seconds.
HARM_LASTS = 45.0


@dataclass(frozen=True)
class Plan:
    """How many messages at which rate, how often each side is killed, and when what a queue lost is found missing.

    ``timeout`` is that of a POST in seconds, ``batch`` how many messages it has at most, ``keys`` how many keys the
    messages have in turn, whose order is judged where ``ordering`` says that it is kept.
    """

    messages: int
    rate: float
    kills: int
    seed: int
    max_concurrency: int = 16
    batch: int = 1
    stuck_after: str = "5m"
    timeout: float = 10.0
    drain_within: float = 60.0
    ordering: str = "none"
    keys: int = 1


class Harm(NamedTuple):
    """What is done to a part so many times in a run; ``strike`` returns when that part can be harmed again.

    ``crashes`` counts how often the bus, at work, is killed in one strike. After its return a strike has effects for
    ``lasts`` seconds.
    """

    times: int
    strike: Callable[[], None]
    crashes: int = 0
    name: str = "harm of a part"
    lasts: float = HARM_LASTS


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
    """Is harmed when the run has come as far as its next threshold; all chosen at the beginning, from the dice.

    Attributes
    ----------
    spans
        When it was harmed.
    """

    def __init__(self, messages: int, dice: random.Random, harm: Harm) -> None:
        places = range(int(messages * EARLIEST), int(messages * LATEST))
        self._thresholds = sorted(dice.sample(places, harm.times))
        self._harm = harm
        self._strikes = 0
        self.spans: list[Span] = []

    @property
    def spared(self) -> bool:
        """Whether all is done to it."""
        return self._strikes == len(self._thresholds)

    def strike(self, progress: int) -> None:
        """Harm it if it is time."""
        if not self.spared and progress >= self._thresholds[self._strikes]:
            begin = time.time()
            self._harm.strike()
            self._strikes += 1
            self.spans.append(Span(self._harm.name, begin, time.time(), self._harm.lasts))


class KillRun:
    """One run below a folder; ``run`` tells how it went, and ``carried`` how many messages took the transport.

    Parameters
    ----------
    transport
        The transport of its destination.
    env
        Settings of the bus, such as where the broker is.
    clock
        That of the bus's and the producer's machine.
    harms
        What is done besides the plan's kills of the bus and of the producer; more may be added before the run.
    data
        The bus's data directory, when it is not to be below the folder; so is ``spool`` the producer's.
    instead
        What runs the bus in place of its program, as of ``bus_command``.
    paths
        What its subscribers do, one for each.
    at_end
        Called when everything is sent, before it is waited for.
    drained
        Called when everything is final, before the bus is stopped.
    apart
        Each role is a process of its own, and a kill of the bus is one of these in turn.
    processes
        How many processes of the bus serve its port; a kill of the bus is one of these, or of their supervisor.
    planted
        One of ``tests.harness.planted``'s bugs.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        transport: str = "direct",
        env: Mapping[str, str] | None = None,
        clock: MovedClock | None = None,
        harms: Sequence[Harm] = (),
        paths: Sequence[str] = PATHS,
        at_end: Callable[[], None] = lambda: None,
        drained: Callable[[], None] = lambda: None,
        apart: bool = False,
        processes: int = 1,
        planted: str | None = None,
        instead: Sequence[object] = (),
        data: Path | None = None,
        spool: Path | None = None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self._transport = transport
        self.harms = list(harms)
        self._paths = [path.partition("=")[0] for path in paths]
        self._at_end = at_end
        self.drained = drained
        self._spool = spool or folder / "spool"
        self._history = folder / "producer.jsonl"
        self._progress = Progress(self._history)
        self._dice = random.Random(plan.seed)
        env = {**(env or {}), **(clock.env if clock else {})}
        data = data or folder / "data"
        self.bus: BusProcess | Cluster
        instead = ("tests.harness.planted", planted) if planted else instead
        if apart:
            self.bus = Cluster(folder, env=env)
        elif processes > 1:
            self.bus = ProcessGroup(data, processes, log=folder / "bus.log", env=env, instead=instead)
        else:
            self.bus = BusProcess(data, log=folder / "bus.log", env=env, instead=instead)
        self.subscriber = SubscriberProcess(folder, *(path for path in paths if "=" in path))
        self._producer = Child([], log=folder / "producer.log")
        self._producer_env = clock.env if clock else {}
        self._victims: list[Victim] = []
        self._is_planted = planted is not None
        self.carried = 0

    def run(self) -> Judgement:
        """Send, kill, wait until everything is final, and judge."""
        with self.subscriber, self.bus:
            self._configure()
            self._producer = self._new_producer().start()
            try:
                self._send_and_kill()
                self._at_end()
                drained = self._drain()
                self.carried += self.bus.admin.carried(self._transport)
                self.drained()
            finally:
                self._producer.kill()
        return self._judge(drained=drained)

    def is_all_over(self) -> bool:
        """Return whether all that the plan has was sent, and is final."""
        return self._progress.update() >= self.plan.messages and self.bus.admin.unfinished(DESTINATION) is None

    def stop_producer(self) -> None:
        """Have the producer end as one does that is asked to, once it has shipped all that it tells of."""
        told = self._spool / "events"
        wait_until(lambda: not any(told.iterdir()), within=60, what="the producer's trace events are shipped")
        assert self._producer.stop() == 0, self._producer.output()

    def _configure(self) -> None:
        self.bus.admin.destination(DESTINATION, transport=self._transport, ordering=self.plan.ordering)
        for path in self._paths:
            fields = {
                "max_concurrency": self.plan.max_concurrency,
                "batch": self.plan.batch,
                "retry": ["200ms", "1s"],
                "stuck_after": self.plan.stuck_after,
                "timeout_seconds": self.plan.timeout,
            }
            self.bus.admin.subscription(DESTINATION, path.strip("/"), self.subscriber.url(path), **fields)

    def _new_producer(self) -> Child:
        plan = self.plan
        options = "--url", self.bus.url, "--spool", self._spool, "--history", self._history
        load = "--destination", DESTINATION, "--count", plan.messages, "--rate", plan.rate
        argv = module("tests.harness.producer", *options, *load, "--keys", plan.keys)
        return Child(argv, log=self.folder / "producer.log", env=self._producer_env)

    def _send_and_kill(self) -> None:
        progress = self._progress
        kills = [
            Harm(self.plan.kills, self._kill_bus, name="kill of the bus", lasts=0.0),
            Harm(self.plan.kills, self._kill_producer, name="kill of the producer", lasts=0.0),
        ]
        victims = self._victims = [Victim(self.plan.messages, self._dice, harm) for harm in (*kills, *self.harms)]

        def over() -> bool:
            tried = progress.update()
            for victim in victims:
                victim.strike(tried)
            self._producer.check_running()
            return tried >= self.plan.messages and all(victim.spared for victim in victims)

        strikes = sum(harm.times for harm in (*kills, *self.harms))
        within = 30 + 3 * self.plan.messages / self.plan.rate + 10 * strikes
        wait_until(over, within=within, what="everything sent and all harm done", every=0.01)
        self._producer.ready_line(30)

    def _kill_bus(self) -> None:
        self.carried += self.bus.admin.carried(self._transport)
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
        write_history(self.folder / "history.jsonl", history)
        # In flight at a crash: messages of requests, and outcomes that wait for their commit, each as many at most.
        crashes = self.plan.kills + sum(harm.times * harm.crashes for harm in self.harms)
        spans = [span for victim in self._victims for span in victim.spans]
        faults = Faults(crashes=crashes, window=2 * self.plan.max_concurrency * self.plan.batch, spans=spans)
        ordering = self.plan.ordering
        found = check(history, subscriptions=self._paths, drained=drained, faults=faults, ordering=ordering)
        if not self._is_planted:  # which loses messages on purpose
            note(self._figures(found))
        return found

    def _figures(self, found: Judgement) -> Figures:
        counts = [findings.counts() for findings in found.subscriptions.values()]
        return Figures(
            messages=found.attempts,
            faults=2 * self.plan.kills + sum(harm.times for harm in self.harms),
            lost=sum(each["lost"] for each in counts),
            unexpected=sum(each["unexpected"] for each in counts),
            duplicates=sum(each["duplicated"] for each in counts),
        )
