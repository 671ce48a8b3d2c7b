"""One run: a seed decides what there is, what fails when, and how long everything takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.stateful.chains.actors import Dispatcher, Person, Places, Producer, Receiver, Rules
from tests.stateful.chains.places import Coordinator, Group, Subscriber
from tests.stateful.chains.world import Host, World

MESSAGES = 14
TROUBLE = 45.0
PATIENCE = 400.0


@dataclass
class Found:
    """What a run has shown; no ``complaints`` when all promises were kept."""

    complaints: list[str] = field(default_factory=list)
    acked: int = 0
    segments: int = 0
    again: int = 0
    lost: int = 0

    @property
    def is_wrong(self) -> bool:
        """Whether an order was broken, or something was lost and not reported."""
        return any("in the order" in text or "never got" in text for text in self.complaints)


class Simulation:
    """One to three groups, two receivers, two dispatchers, one or two subscribers, one producer after another."""

    def __init__(self, seed: int, rules: Rules | None = None, *, drift: float = 0.15) -> None:
        dice = self._dice = random.Random(seed)
        self.world = World(dice)
        names = [f"subscriber-{n}" for n in range(dice.choice((1, 1, 2)))]
        is_pair = dice.random() < 0.5
        groups = [Group(self.world, name, names, is_pair=is_pair) for name in "abc"[: dice.choice((1, 2, 2, 3))]]
        self.places = Places(
            Coordinator(), {one.name: one for one in groups}, {name: Subscriber(name) for name in names}
        )
        self._rules = rules or Rules()
        self._receivers: dict[str, Receiver] = {}
        self._hosts = [
            Host(self.world, name, dice.uniform(1 - drift, 1 + drift), main)
            for name, main in (
                ("receiver-0", self._receive),
                ("receiver-1", self._receive),
                ("dispatcher-0", self._dispatch),
                ("dispatcher-1", self._dispatch),
            )
        ]
        producing, deciding = Host(self.world, "producer"), Host(self.world, "person")
        for host in (*self._hosts, producing, deciding):
            host.start()
        Person(deciding, self.places.coordinator)
        dies, swept = dice.choice((0.0, 0.3, 0.8)), dice.choice((0.0, 0.5, 1.0))
        receivers = lambda: list(self._receivers.values())  # noqa: E731
        coordinator = self.places.coordinator
        self._producer = Producer(producing, coordinator, receivers, MESSAGES, dies=dies, swept=swept)

    def run(self) -> Found:
        """Let everything fail for a while, then nothing, and judge."""
        for _ in range(self._dice.randrange(2, 14)):
            self.world.after(self._dice.uniform(0, TROUBLE), self._strike)
        self.world.run(TROUBLE, over=self._is_over)
        self._mend()
        self.world.run(self.world.now + PATIENCE, over=self._is_over)
        return self._judge()

    def _receive(self, host: Host) -> None:
        self._receivers[host.name] = Receiver(host, self.places, self._rules)

    def _dispatch(self, host: Host) -> None:
        Dispatcher(host, self.places, self._rules, lambda: list(self._receivers.values()))

    def _strike(self) -> None:
        strikes: list[Callable[[], None]] = [
            self._kill,
            self._pause,
            self._stop_at_call,
            self._stop_at_call,
            self._cut,
            self._cut,
            self._harm_group,
            self._harm_group,
            self._harm_group,
            self._stop,
            self._stop,
            self._slow,
            self._lose_disks,
        ]
        self._dice.choice(strikes)()

    def _later(self, longest: float, event: Callable[[], None]) -> None:
        self.world.after(self._dice.uniform(0.1, longest), event)

    def _kill(self) -> None:
        host = self._dice.choice(self._hosts)
        if host.is_up:
            host.crash()
            self._later(10, lambda: None if host.is_up else host.start())

    def _pause(self) -> None:
        host = self._dice.choice(self._hosts)
        host.stand_still()
        self._later(20, host.go_on)

    def _stop_at_call(self) -> None:
        host = self._dice.choice(self._hosts)
        host.stops_for = self._dice.uniform(1, 20)
        host.stops_at = self._dice.choice(([Coordinator.name], self.places.groups, self.places.subscribers))

    def _cut(self) -> None:
        places = [*self.places.groups, Coordinator.name, *(host.name for host in self._hosts)]
        one, other = self._dice.choice(self._hosts).name, self._dice.choice(places)
        self.world.cut(one, other)
        self._later(20, lambda: self.world.heal(one, other))

    def _harm_group(self) -> None:
        group = self._dice.choice(list(self.places.groups.values()))
        group.set_up(self._dice.randrange(group.copies))
        self._later(15, lambda: group.set_up(group.copies))

    def _lose_disks(self) -> None:
        group = self._dice.choice(list(self.places.groups.values()))
        group.set_up(0)

        def begin_anew() -> None:
            group.lose_disks()
            group.set_up(group.copies)

        self._later(15, begin_anew)

    def _stop(self) -> None:
        place = self._dice.choice((self.places.coordinator, *self.places.subscribers.values()))
        place.is_up = False

        def start() -> None:
            place.is_up = True

        self._later(12, start)

    def _slow(self) -> None:
        self.world.slowness = self._dice.choice((20, 200))

        def mend() -> None:
            self.world.slowness = 1.0

        self._later(10, mend)

    def _mend(self) -> None:
        self.world.heal_all()
        for place in (self.places.coordinator, *self.places.subscribers.values()):
            place.is_up = True
        for group in self.places.groups.values():
            group.set_up(group.copies)
        for host in self._hosts:
            if not host.is_up:
                host.start()
            elif host.is_still:
                host.go_on()
            host.stops_for = 0.0

    def _is_over(self) -> bool:
        return self._producer.is_over and not any(map(self._missing, self.places.subscribers.values()))

    def _missing(self, subscriber: Subscriber) -> list[int]:
        """Return what was to be delivered and was not, but for what was reported as lost with disks."""
        return sorted({*self._producer.acked} - subscriber.first.keys() - self._lost(subscriber))

    def _lost(self, subscriber: Subscriber) -> set[int]:
        """Return what groups lost that a subscriber had not got from them, and that the chain has as lost."""
        return {
            entry.message.number
            for group in self.places.groups.values()
            for entry in group.lost[subscriber.name]
            for gap in self.places.coordinator.chain.gaps
            if gap.epoch <= entry.epoch < gap.before and subscriber.name not in gap.drained
        }

    def _judge(self) -> Found:
        found = Found(acked=len(self._producer.acked), segments=len(self.places.coordinator.chain.consume))
        acked = set(self._producer.acked)
        if not self._producer.is_over:
            found.complaints.append(f"only {len(acked)} of {MESSAGES} could be sent")
        for subscriber in self.places.subscribers.values():
            first = subscriber.first
            found.again += sum(first.values())
            if missing := self._missing(subscriber):
                found.complaints.append(f"{subscriber.name} never got {missing}")
            found.lost += len(acked - first.keys())
            # What nobody was told of that it is held may come late, if that is told; of what was lost another copy may.
            lost = self._lost(subscriber)
            told = [number for number, is_again in first.items() if number in acked or not is_again]
            in_order = [number for number in told if number not in lost]
            if in_order != sorted(in_order):
                found.complaints.append(f"{subscriber.name} got them in the order {in_order}")
        return found
