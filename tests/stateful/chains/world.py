"""Time, hosts that crash, stand still and are cut off, and calls between them that are late, lost or answered late."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Collection, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Coroutine: TypeAlias = Generator[Any, Any, Any]
Reply: TypeAlias = Callable[[Any], None]


class Sleep(NamedTuple):
    """Wait for so many seconds of the host's clock."""

    seconds: float


class Call(NamedTuple):
    """Ask something of another place.

    ``act`` is called there with what takes the answer, perhaps after the caller has given up: then the caller has
    ``default``.
    """

    place: Hashable
    act: Callable[[Reply], None]
    default: Any
    within: float = 5.0


class World:
    """Events in the order of their times, and the faults of the network."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.now = 0.0
        self.slowness = 1.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._cut: set[tuple[Hashable, Hashable]] = set()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Have something happen later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), event))

    def run(self, until: float, *, over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until and not over():
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = max(self.now, min(until, self._events[0][0] if self._events else until))

    def cut(self, one: Hashable, other: Hashable) -> None:
        """Have nothing come through between two places."""
        self._cut.add((one, other))

    def heal(self, one: Hashable, other: Hashable) -> None:
        """Let them speak again."""
        self._cut.discard((one, other))

    def heal_all(self) -> None:
        """Let all speak."""
        self._cut.clear()
        self.slowness = 1.0

    def is_cut(self, one: Hashable, other: Hashable) -> bool:
        """Whether nothing comes through."""
        return (one, other) in self._cut or (other, one) in self._cut

    def latency(self) -> float:
        """Return how long something is on its way: mostly little."""
        return self.dice.expovariate(200) * self.slowness + (self.dice.random() < 0.01) * self.dice.uniform(0, 8)


@dataclass(eq=False)
class Host:
    """A process on a machine.

    Attributes
    ----------
    rate
        How fast its clock goes.
    stops_for
        For how long it stands still, with its clock going on, when it is about to call one of ``stops_at``.
    """

    world: World
    name: str
    rate: float = 1.0
    main: Callable[[Host], None] = lambda _: None
    life: int = 0
    is_up: bool = False
    waits: list[Callable[[], None]] = field(default_factory=list)
    is_still: bool = False
    stops_for: float = 0.0
    stops_at: Collection[Hashable] = ()

    def clock(self) -> float:
        """Return its monotonic time."""
        return self.world.now * self.rate

    def start(self) -> None:
        """Start a new life."""
        self.life += 1
        self.is_up, self.is_still, self.stops_for = True, False, 0.0
        self.main(self)

    def crash(self) -> None:
        """End it, and all that it was about to do."""
        self.is_up = False
        self.waits.clear()

    def stand_still(self) -> None:
        """Let it do nothing, while its clock goes on."""
        self.is_still = True

    def go_on(self) -> None:
        """Let it do what has come up meanwhile."""
        self.is_still = False
        waits, self.waits = self.waits, []
        for event in waits:
            event()

    def spawn(self, coroutine: Coroutine) -> None:
        """Run a coroutine in this life."""
        self._step(self.life, coroutine, None)

    def _step(self, life: int, coroutine: Coroutine, value: Any) -> None:
        if life != self.life or not self.is_up:
            return
        if self.is_still:
            self.waits.append(lambda: self._step(life, coroutine, value))
            return
        try:
            wanted = coroutine.send(value)
        except StopIteration:
            return
        if isinstance(wanted, Sleep):
            self.world.after(wanted.seconds / self.rate, lambda: self._step(life, coroutine, None))
        else:
            self._call(life, coroutine, wanted)

    def _call(self, life: int, coroutine: Coroutine, call: Call) -> None:
        world, is_answered = self.world, False

        def go_on(value: Any) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                self._step(life, coroutine, value)

        def answer(value: Any) -> None:
            world.after(world.latency(), lambda: None if world.is_cut(self.name, call.place) else go_on(value))

        def depart() -> None:
            if not world.is_cut(self.name, call.place):
                world.after(world.latency(), lambda: call.act(answer))

        if self.stops_for and call.place in self.stops_at:
            self.stand_still()
            self.waits.append(depart)
            world.after(self.stops_for, self.go_on)
            self.stops_for = 0.0
        else:
            depart()
        world.after(call.within / self.rate, lambda: go_on(call.default))
