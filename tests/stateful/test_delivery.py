"""Every accepted message ends delivered or dead for everybody it was for, whatever fails, restarts or is resent.

The real roles run on spools, a store, a road and a poster in memory, on a simulated clock. A crash drops all objects
of a life and keeps what spools, store and road hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from admin.resender import Resender
from bus.bootstrap import Context
from bus.cluster.peers import PeerKey
from bus.domain.delivery import FINAL, RANK, Outcome, Status
from bus.domain.destination import Destination
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.retry import RetryPolicy, Schedule
from bus.domain.subscription import Subscription
from bus.errors import Conflict, NotFound, StoreUnavailable
from bus.ports.poster import PostFailure, PostResult
from bus.ports.spool import NewRecord
from bus.registry import Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import ANYONE, Keyring
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.testing.clock import ManualClock
from bus.testing.cluster import NoDispatching, alone
from bus.testing.poster import MemoryPoster, MemoryTarget, Reply
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.transports.roads import Roads
from compensator.role import CompensatorService
from dispatcher.courier import Courier
from dispatcher.outcomes import OutcomeLog
from dispatcher.role import DispatcherService
from receiver.draft import Draft
from receiver.role import ReceiverService

CODE = "orders"
PERMITS = {"billing": 1, "mail": 3}
ATTEMPTS = 4
NAMES = st.sampled_from(sorted(PERMITS))
GOOD = Reply(200)
ANSWERS = st.lists(
    st.sampled_from(
        [GOOD, GOOD, Reply(500), Reply(302), Reply(503, (("retry-after", "3"),))]
        + [Reply(failure=kind) for kind in (PostFailure.REFUSED, PostFailure.RESET, PostFailure.TIMEOUT)]
    ),
    min_size=1,
    max_size=8,
)
END = 900.0


def url(name: str) -> str:
    return f"http://127.0.0.1:8000/{name}"


class Spool(MemorySpool):
    """Its appends take a moment, so that a crash may fall before or after them."""

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        await asyncio.sleep(0)
        positions = await super().append(records, urgent=urgent)
        await asyncio.sleep(0)
        return positions


class Store(MemoryStore):
    """Its calls take a moment; while it is down it answers nobody. Writes come in any order, and more than once."""

    down = False

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self._earlier: list[Outcome] = []

    async def _moment(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise StoreUnavailable("down")

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        await self._moment()
        repeated = self._dice.sample(self._earlier, min(2, len(self._earlier)))
        shuffled = [*writes, *repeated]
        self._dice.shuffle(shuffled)
        self._earlier += [one for one in writes if isinstance(one, Outcome)]
        await super().write(shuffled)


def _slowed(name: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: Store, *args: Any, **kwargs: Any) -> Any:
        await self._moment()
        return await getattr(MemoryStore, name)(self, *args, **kwargs)

    return call


for _name in ("trace", "finished", "unsettled", "compensate", "lease", "unlease", "finish", "due", "subscribed"):
    setattr(Store, _name, _slowed(_name))


class Poster(MemoryPoster):
    """Counts what is under way to each subscriber, and remembers what was answered with success."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(EgressPolicy(allow_loopback=True), sleep=clock.sleep)
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.bodies: dict[str, bytes] = {}

    async def post(self, target, headers, body: bytes, timeout: float) -> PostResult:  # noqa: ASYNC109
        assert isinstance(target, MemoryTarget)
        name = target.url.rsplit("/", 1)[1]
        message_id = dict(headers)["webhook-id"]
        self.bodies[message_id] = body
        self.under_way[name] += 1
        self.most[name] = max(self.most[name], self.under_way[name])
        try:
            await asyncio.sleep(0)
            result = await super().post(target, headers, body, timeout)
        finally:
            self.under_way[name] -= 1
        if result.status == 200:
            self.delivered[message_id, name] += 1
        return result


class Life:
    """One process: what a crash drops."""

    def __init__(self, world: World) -> None:
        self.registry = Registry(world.store, SecretBox(None))
        roads = Roads([world.road], world.clock)
        self.registry.listen(roads.apply)
        self.context = Context(
            settings=Settings(),
            node="node-1",
            owner="owner-1",
            started_at=world.clock.now(),
            clock=world.clock,
            noise=world.noise.random,
            store=world.store,
            registry=self.registry,
            keyring=Keyring(world.store, world.clock.now),
            roads=roads,
            poster=world.poster,
            egress=EgressPolicy(allow_loopback=True),
            spools={**world.spools},
            members=alone(world.store, world.clock),
            peer_key=PeerKey(world.store, world.clock),
            dispatching=NoDispatching(),
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, clock: ManualClock) -> None:
        await self.registry.load()
        services = [role(self.context) for role in (DispatcherService, ReceiverService, CompensatorService)]
        self.ingest = services[1]._app._ingest
        for service in services:
            ready = asyncio.Event()
            self.tasks.append(asyncio.create_task(service.run(ready, asyncio.Event())))
            await clock.until(ready.is_set, within=60)


class World:
    """What survives a crash, and the life of now."""

    def __init__(self, *, seed: int) -> None:
        self.clock = ManualClock()
        self.noise = random.Random(seed)
        self.store = Store(self.noise)
        self.road = MemoryTransport()
        self.spools = {
            "receiver": Spool(consumers=("publish", "store")),
            "direct": Spool(consumers=()),
            "outcomes": Spool(consumers=("store",)),
        }
        self.poster = Poster(self.clock)
        self.crashes = 0
        self.outages = 0
        self.accepted: dict[str, tuple[bytes, tuple[str, ...]]] = {}
        self.resends: Counter[tuple[str, str]] = Counter()
        self.made = itertools.count()

    async def begin(self) -> None:
        self.life = Life(self)
        await self.life.start(self.clock)

    async def configure(self) -> None:
        await self.life.registry.put_destination(Destination(code=CODE))
        for name, permits in PERMITS.items():
            await self.subscribe(name, max_concurrency=permits)

    async def subscribe(self, name: str, **changes: Any) -> None:
        known = self.life.registry.catalog.subscriptions.get((CODE, name))
        retry = RetryPolicy(Schedule((1000, 2000)), 86_400_000, ATTEMPTS)
        fields: dict[str, Any] = {"destination": CODE, "name": name, "url": url(name), "retry": retry}
        fields |= {"timeout": 2000, "stuck_after": 20_000, "max_concurrency": PERMITS[name]}
        version = known.version if known else 0
        await self.life.registry.put_subscription(Subscription(**fields | changes, version=version))

    async def accept(self, delay: int = 0) -> None:
        number = next(self.made)
        now = self.clock.now()
        body = b"body %d" % number
        draft = Draft(CODE, body, id=new_id(now), deliver_at=now + delay if delay else 0)
        expected = self.life.registry.catalog.names(CODE)
        answer = await self.life.ingest.accept_one(draft, ANYONE)
        self.accepted[answer.id] = (body, expected)

    async def kill(self) -> None:
        """End the life at this very moment."""
        self._lose_grip()
        for task in self.life.tasks:
            task.cancel()
        await asyncio.gather(*self.life.tasks, return_exceptions=True)
        # What it took in its last moments is not held by anybody either.
        self._lose_grip()
        self.crashes += 1
        self.store.down = False

    def _lose_grip(self) -> None:
        self.road.crash()
        for spool in self.spools.values():
            spool.crash()

    async def resend(self, message_id: str, name: str) -> None:
        resender = Resender(self.store, self.life.registry, self.clock)
        with contextlib.suppress(Conflict, NotFound):
            trace = await self.store.trace(message_id)
            if trace is None:
                return
            targets = resender.choose(trace, [name])
            await resender.apply(message_id, targets, "a person")
            self.resends[message_id, name] += 1

    def is_at_rest(self) -> bool:
        """Whether every delivery has ended, and neither a road nor a spool nor the store has work left."""
        lags = self.road.lags() or {}
        left = [lag.records for lag in lags.values()] + [spool.stats().records for spool in self.spools.values()]
        return not (any(left) or self.store._rows or self.unfinished())

    def unfinished(self) -> list[tuple[str, str, str]]:
        found = []
        for message_id, (_, expected) in self.accepted.items():
            trace = self.store._traces.get(message_id)
            for name in expected:
                delivery = trace.deliveries.get(name) if trace is not None else None
                if delivery is None or delivery.status not in FINAL:
                    found.append((message_id, name, str(delivery.status) if delivery else "unknown"))
        return found


class DeliveryMachine(RuleBasedStateMachine):
    """Does to the bus what the world does to it."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.seen: dict[tuple[str, str], tuple[int, int]] = {}

    def run(self, work: Awaitable[Any]) -> None:
        async def settled() -> None:
            await work
            await self.world.clock.settle()

        self.runner.run(settled())

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.world = World(seed=seed)
        self.run(self.world.begin())
        self.run(self.world.configure())

    @rule(count=st.integers(1, 6))
    def accept(self, count: int) -> None:
        for _ in range(count):
            self.run(self.world.accept())

    @rule(delay=st.integers(1, 10_000))
    def accept_for_later(self, delay: int) -> None:
        self.run(self.world.accept(delay))

    @rule(name=NAMES, answers=ANSWERS)
    def answer(self, name: str, answers: list[Reply]) -> None:
        self.world.poster.script(url(name), *answers)

    @rule(seconds=st.floats(0.01, 30))
    def wait(self, seconds: float) -> None:
        self.run(self.world.clock.advance(seconds))

    @rule(count=st.integers(0, 4), turns=st.integers(0, 40), seconds=st.sampled_from([0.0, 1.0, 1.5]))
    def crash(self, count: int, turns: int, seconds: float) -> None:
        """Kill the process in the middle of work."""

        async def work() -> None:
            world = self.world
            await world.clock.advance(seconds)
            for _ in range(count):
                await world.accept()
            for _ in range(turns):
                await asyncio.sleep(0)
            await world.kill()
            await world.begin()

        self.run(work())

    @rule(name=NAMES, pick=st.integers(0, 99))
    def resend(self, name: str, pick: int) -> None:
        if self.world.accepted and not self.world.store.down:
            ids = list(self.world.accepted)
            self.run(self.world.resend(ids[pick % len(ids)], name))

    @rule(name=NAMES)
    def lose(self, name: str) -> None:
        """The road loses what waits for a subscription."""
        self.world.road.lose(CODE, name)

    @rule(is_refusing=st.booleans())
    def refuse(self, is_refusing: bool) -> None:
        self.world.road.refusing = is_refusing

    @rule(name=NAMES, is_paused=st.booleans())
    def pause(self, name: str, is_paused: bool) -> None:
        self.run(self.world.subscribe(name, paused=is_paused))

    @rule()
    def lose_the_store(self) -> None:
        self.world.store.down = True
        self.world.outages += 1

    @rule()
    def find_the_store(self) -> None:
        self.world.store.down = False

    @invariant()
    def nothing_died(self) -> None:
        for task in self._tasks():
            assert not task.done(), task

    @invariant()
    def permits_are_kept(self) -> None:
        for name, permits in PERMITS.items():
            assert self._poster().most[name] <= permits

    @invariant()
    def bodies_are_as_they_were_sent(self) -> None:
        for message_id, body in self._poster().bodies.items():
            if message_id in self.world.accepted:
                assert body == self.world.accepted[message_id][0]

    @invariant()
    def no_state_is_undone(self) -> None:
        for message_id, trace in self.world.store._traces.items():
            for name, delivery in trace.deliveries.items():
                known = self.seen.get((message_id, name), (0, 0))
                now = (delivery.generation, RANK[delivery.status])
                assert now >= known, (message_id, name, known, now)
                self.seen[message_id, name] = now

    @invariant()
    def nothing_is_delivered_twice_without_a_reason(self) -> None:
        if self.world.crashes or self.world.outages:
            return
        for key, count in self._poster().delivered.items():
            assert count <= 1 + self.world.resends[key], key

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.runner.run(self._end())
        finally:
            self.runner.close()

    async def _end(self) -> None:
        """Let all be well, and see what becomes of it."""
        world = self.world
        world.store.down = world.road.refusing = False
        for name in PERMITS:
            world.poster.script(url(name), GOOD)
            await world.subscribe(name)
        try:
            with contextlib.suppress(AssertionError):
                await world.clock.until(world.is_at_rest, within=END)
            assert world.unfinished() == []
            assert world.store._rows == {}
            assert world.is_at_rest()
            self._check_ends()
            for check in (self.nothing_died, self.permits_are_kept, self.no_state_is_undone):
                check()
            self.bodies_are_as_they_were_sent()
            self.nothing_is_delivered_twice_without_a_reason()
        finally:
            await world.kill()

    def _check_ends(self) -> None:
        """What is delivered was answered with success; what is dead had all its attempts."""
        world = self.world
        for message_id, (_, expected) in world.accepted.items():
            for name in expected:
                delivery = world.store._traces[message_id].deliveries[name]
                if delivery.status is Status.DELIVERED:
                    assert world.poster.delivered[message_id, name]
                else:
                    assert delivery.status is Status.DEAD
                    assert delivery.attempts_made >= ATTEMPTS

    def _poster(self) -> Poster:
        return self.world.poster

    def _tasks(self) -> list[asyncio.Task[None]]:
        return self.world.life.tasks


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = SETTINGS


# --- planted bugs, each of which the machine has to find ----------------------------------------------------------


def acks_before_the_outcome(patch: pytest.MonkeyPatch) -> None:
    plain = OutcomeLog.record

    class Nobody:
        def recorded(self, tokens: Sequence[object]) -> None:
            """Take no notice."""

    def record(self: OutcomeLog, outcome: Outcome, owner: Any, token: object) -> None:
        owner.recorded([token])
        plain(self, outcome, Nobody(), token)

    patch.setattr(OutcomeLog, "record", record)
    # The road has passed what was acked, so that nothing but the outcome could carry it on.
    patch.setattr("compensator.stuck.StuckSearch._claim", _claims_nothing)


async def _claims_nothing(*_: object) -> int:
    return 0


def makes_no_row(patch: pytest.MonkeyPatch) -> None:
    plain = MemoryStore._follow

    def follow(self: MemoryStore, outcome: Outcome) -> None:
        if outcome.status is not Status.RETRYING:
            plain(self, outcome)

    patch.setattr(MemoryStore, "_follow", follow)


def looks_for_nothing_stuck(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("compensator.stuck.StuckSearch._claim", _claims_nothing)


def lets_late_outcomes_win(patch: pytest.MonkeyPatch) -> None:
    plain = MemoryStore.write

    async def write(self: MemoryStore, writes: Sequence[Message | Outcome]) -> None:
        await plain(self, writes)
        for one in writes:
            if isinstance(one, Outcome):
                self._traces[one.message_id].deliveries[one.subscription].status = one.status

    patch.setattr(MemoryStore, "write", write)


def takes_one_permit_too_many(patch: pytest.MonkeyPatch) -> None:
    plain = Courier._spawn

    def spawn(self: Courier) -> None:
        plain(self)
        if (
            self._group is not None
            and self._stock.waiting
            and not self._stopping.is_set()
            and not self.subscription.paused
        ):
            self._workers += 1
            self._group.create_task(self._work())

    patch.setattr(Courier, "_spawn", spawn)
    patch.setattr(Courier, "_may_start", lambda self: bool(self._stock.waiting) and not self._stopping.is_set())


@pytest.mark.parametrize(
    "plant",
    [acks_before_the_outcome, makes_no_row, looks_for_nothing_stuck, lets_late_outcomes_win, takes_one_permit_too_many],
)
def test_the_machine_finds(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    many = settings(SETTINGS, max_examples=1000, derandomize=True, database=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(DeliveryMachine, settings=many)
