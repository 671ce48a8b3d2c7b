"""Two processes on one store that lags, is cut off from either, and loses answers: nobody repeats a retry of the other.

Final outcomes may wait for the store for longer than any lease, behind others, while unfinished ones pass.

Nothing is killed, and nobody is cut off for longer than a lease lasts, so that each message is delivered once.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.errors import StoreUnavailable
from bus.ports.poster import PostResult
from bus.stores.feed import Source
from bus.testing.clock import ManualClock
from bus.testing.poster import Reply
from dispatcher.outcomes import FEED
from dispatcher.retries.held_outcomes import HeldOutcome
from dispatcher.retries.retrier import Retrier
from tests.stateful.delivery_world import CODE, Poster, Store, World, url

SEEDS = range(40)
_STEPS = 50
_CUT_OFF = 10.0
_APART = 60.0
_NAMES = ("billing", "mail")


class Link:
    """One process's connection to the store: its writes take ``delay`` seconds, and ``trouble`` may befall them."""

    def __init__(self, hub: Store, sleep: Callable[[float], Any]) -> None:
        self._hub = hub
        self._sleep = sleep
        self.delay = 0.0
        self.trouble = ""
        self.since = 0.0

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._hub, name)
        return self._through(plain, name) if inspect.iscoroutinefunction(plain) else plain

    def _through(self, plain: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if name == "write":
                await self._sleep(self.delay)
            if self.trouble == "away":
                raise StoreUnavailable("cut off")
            answer = await plain(*args, **kwargs)
            if self.trouble == "lost" and name == "write":
                raise StoreUnavailable("the answer is lost")
            return answer

        return call


class SlowPoster(Poster):
    """Some subscribers answer late."""

    def __init__(self, clock: ManualClock, dice: random.Random) -> None:
        super().__init__(clock)
        self._clock = clock
        self._dice = dice

    async def post(self, *args: Any) -> PostResult:
        await self._clock.sleep(self._dice.choice([0, 0, 1.5]))
        return await super().post(*args)


class Node(World):
    """One of the processes; the first has the clock, the store and the subscribers of both."""

    def __init__(self, seed: int, owner: str, first: Node | None = None) -> None:
        super().__init__(seed=seed)
        self.owner = owner
        hub = first or self
        self.hub: Store = hub.store if first is None else first.hub
        self.clock = hub.clock
        self.poster = first.poster if first else SlowPoster(self.clock, random.Random(seed))
        self.link = Link(self.hub, self.clock.sleep)
        self.holds_up = False
        self.store: Any = self.link


async def started(seed: int, dice: random.Random) -> list[Node]:
    """Start both processes, with two subscribers that fail now and then."""
    first = Node(seed, "owner-1")
    nodes = [first, Node(seed + 1, "owner-2", first)]
    for node in nodes:
        await node.begin()
    await first.configure(_NAMES, stuck_after=600_000, retry=RetryPolicy(Schedule((1000, 2000)), 86_400_000, None))
    await nodes[1].life.registry.refresh()
    for name in _NAMES:
        first.poster.script(url(name), *[Reply(dice.choice([200, 503])) for _ in range(60)], Reply(200))
    return nodes


@contextmanager
def holding_up(nodes: Sequence[Node]) -> Iterator[None]:
    """Have final outcomes wait in the spools of nodes that hold them up."""
    by_spool = {id(node.spools["outcomes"]): node for node in nodes}

    def lanes(source: Source) -> list[str]:
        node = by_spool.get(id(source.spool))
        return [lane for lane in source.spool.lanes(FEED) if lane != CODE or node is None or not node.holds_up]

    async def wait(source: Source) -> None:
        await (nodes[0].clock.sleep(0.1) if source.spool.lanes(FEED) else source.spool.wait(FEED))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "lanes", property(lanes))
        patch.setattr(Source, "wait", wait)
        yield


async def run(seed: int) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Live through one schedule; return what was not delivered, and what was more often than once."""
    dice = random.Random(seed)
    nodes = await started(seed, dice)
    with holding_up(nodes):
        return await live(nodes, dice)


async def step(node: Node, dice: random.Random, now: float) -> None:
    """Have a process accept a message, or change how it reaches the store."""
    match dice.randrange(5):
        case 0 | 1:
            await node.accept()
        case 2:
            node.link.delay = dice.choice([0, 0, 0.5, 3, 8])
        case 3:
            node.holds_up = not node.holds_up
        case 4:
            trouble = dice.choice(["", "", "away", "lost"])
            if trouble and now - node.link.since > _APART:
                node.link.trouble, node.link.since = trouble, now


async def live(nodes: Sequence[Node], dice: random.Random) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Do and undo things to the processes, and wait until everything is over; return as ``run`` does."""
    clock, delivered = nodes[0].clock, nodes[0].poster.delivered
    for _ in range(_STEPS):
        await step(dice.choice(nodes), dice, clock.monotonic())
        for one in nodes:
            if clock.monotonic() - one.link.since > _CUT_OFF:
                one.link.trouble = ""
        await clock.advance(dice.choice([0.05, 0.3, 1, 3]))
    for node in nodes:
        node.link.delay, node.link.trouble = 0, ""
    await clock.advance(100)
    for node in nodes:
        node.holds_up = False
    await clock.advance(400)
    for node in nodes:
        await node.kill()
    wanted = {(message, name) for node in nodes for message in node.accepted for name in _NAMES}
    return wanted - delivered.keys(), {key for key, count in delivered.items() if count > 1}


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(40, 2000))])
async def test_each_message_is_delivered_once(seed: int) -> None:
    assert await run(seed) == (set(), set())


def leases_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retrier, "leaving", lambda _, __, write: write)


def ends_leases_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dispatcher.retries.retrier.lease_time", lambda _: 2000)


def leases_nothing_that_was_begun(patch: pytest.MonkeyPatch) -> None:
    plain = Retrier._may_lease

    def may_lease(self: Retrier, held: HeldOutcome) -> bool:
        return not (held.is_offered or self._is_overtaken(held)) and plain(self, held)

    patch.setattr(Retrier, "_may_lease", may_lease)


def lets_outcomes_wait(patch: pytest.MonkeyPatch) -> None:
    async def overtake(_: Retrier) -> None:
        """Write nothing early."""

    patch.setattr(Retrier, "_overtake", overtake)


@pytest.mark.parametrize(
    "plant", [leases_nothing, ends_leases_too_early, leases_nothing_that_was_begun, lets_outcomes_wait]
)
async def test_the_simulation_finds(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        if (await run(seed))[1]:
            print(plant.__name__, seed)
            return
    pytest.fail(plant.__name__)
