"""First POSTs of a key's messages are in the order of their acceptance, whatever fails."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.destination import Destination, Ordering
from bus.domain.subscription import OnFailure
from bus.ports.poster import PostResult
from bus.testing.poster import MemoryTarget
from tests.stateful.delivery_world import ATTEMPTS, CODE, PERMITS, Poster, World
from tests.stateful.test_delivery import SETTINGS, DeliveryMachine

KEYS = ("", "a", "b", "c")
SUBSCRIBED = {
    "billing": (OnFailure.BLOCK, RetryPolicy(Schedule((1000, 15_000)), 86_400_000, None)),
    "mail": (OnFailure.PARK, RetryPolicy(Schedule((1000, 2000)), 86_400_000, ATTEMPTS)),
    "packed": (OnFailure.SKIP, RetryPolicy(Schedule((1000, 12_000)), 86_400_000, ATTEMPTS)),
}


class OrderedPoster(Poster):
    """Sees that no message is POSTed before those of its key are done with that were accepted before it."""

    batched = ()

    def __init__(self, world: OrderedWorld) -> None:
        super().__init__(world.clock)
        self._world = world
        self.posts: Counter[tuple[str, str]] = Counter()
        self.wrong: list[tuple[str, str, str]] = []

    async def post(self, target: Any, headers: Any, body: bytes, timeout: float) -> PostResult:  # noqa: ASYNC109
        assert isinstance(target, MemoryTarget)
        name, message_id = target.url.rsplit("/", 1)[1], dict(headers)["webhook-id"]
        if not self.posts[message_id, name]:
            self._look_back(name, message_id)
        self.posts[message_id, name] += 1
        return await super().post(target, headers, body, timeout)

    def _look_back(self, name: str, message_id: str) -> None:
        for earlier in self._world.before(message_id):
            is_done = self.delivered[earlier, name] or (
                SUBSCRIBED[name][0] is not OnFailure.BLOCK and self.posts[earlier, name] >= ATTEMPTS
            )
            if not (is_done or (earlier, name) in self._world.skipped or name not in self._world.accepted[earlier][1]):
                self.wrong.append((name, earlier, message_id))


class OrderedWorld(World):
    """A world with an order of keys, and people who skip what holds up a key."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.poster = OrderedPoster(self)
        self.by_key: dict[str, list[str]] = defaultdict(list)
        self.skipped: set[tuple[str, str]] = set()
        self._dice = random.Random(seed)

    async def configure(self) -> None:
        await self.life.registry.put_destination(Destination(code=CODE, ordering=Ordering.KEY))
        for name, permits in PERMITS.items():
            await self.subscribe(name, max_concurrency=permits)

    async def subscribe(self, name: str, **changes: Any) -> None:
        on_failure, retry = SUBSCRIBED[name]
        await super().subscribe(name, **{"batch": 1, "on_failure": on_failure, "retry": retry} | changes)

    async def accept(self, delay: int = 0, key: str = "") -> None:
        del delay
        chosen = key or self._dice.choice(KEYS)
        known = set(self.accepted)
        await super().accept(key=chosen)
        self.by_key[chosen] += self.accepted.keys() - known

    def before(self, message_id: str) -> list[str]:
        """Return the messages of the same key that were accepted before one; none of one without a key."""
        for key, ids in self.by_key.items():
            if key and message_id in ids:
                return ids[: ids.index(message_id)]
        return []

    async def skip(self, name: str, pick: int) -> None:
        """Set aside what holds up a key, as a person does."""
        for found in await self.store.ordered_keys(CODE, name):
            (row, *_) = await self.store.ordered_rows(CODE, name, found.order_key, limit=1)
            trace = await self.store.trace(row.message_id)
            if trace is None or trace.deliveries[name].status not in (Status.RETRYING, Status.DEAD) or pick % 2:
                continue
            self.skipped.add((row.message_id, name))
            known = trace.deliveries[name]
            outcome = parked(row, known.generation + 1, known.attempts_made, self.clock.now())
            await self.store.write([outcome])


def parked(row: Any, generation: int, attempts: int, now: int) -> Any:
    from bus.domain.delivery.delivery import Outcome  # noqa: PLC0415

    return Outcome(
        message_id=row.message_id,
        destination=row.destination,
        subscription=row.subscription,
        retention_days=row.retention_days,
        url="",
        status=Status.PARKED,
        generation=generation,
        at=now,
        attempts=attempts,
        reason="skipped by ann",
    )


class OrderedDeliveryMachine(DeliveryMachine):
    """Does to the bus what the world does to it, but for what an order excludes."""

    make_world = OrderedWorld

    def accept_for_later(self, delay: int) -> None:
        """Do nothing: an order has no messages for later."""

    def lose(self, name: str) -> None:
        """Do nothing: what a transport loses comes late."""

    @rule(key=st.sampled_from(KEYS[1:]), count=st.integers(1, 12))
    def accept_of_one_key(self, key: str, count: int) -> None:
        for _ in range(count):
            self.run(self.world.accept(key=key))

    @rule(count=st.integers(0, 6))
    def stop(self, count: int) -> None:
        """End the process in order while keys are held up, and start the next one."""

        async def work() -> None:
            for _ in range(count):
                await self.world.accept()
            await self.world.stop()
            await self.world.begin()

        self.run(work())

    @rule(name=st.sampled_from(sorted(SUBSCRIBED)), pick=st.integers(0, 3))
    def skip(self, name: str, pick: int) -> None:
        if not self.world.store.down:
            assert isinstance(self.world, OrderedWorld)
            self.run(self.world.skip(name, pick))

    @invariant()
    def first_posts_are_in_order(self) -> None:
        poster = self._poster()
        assert isinstance(poster, OrderedPoster)
        assert poster.wrong == []

    def _check_ends(self) -> None:
        """What is not delivered was given up after all its attempts, or set aside by a person."""
        world, poster = self.world, self._poster()
        for message_id, (_, expected) in world.accepted.items():
            for name in expected:
                delivery = world.store._traces[message_id].deliveries[name]
                if delivery.status is Status.DELIVERED:
                    assert poster.delivered[message_id, name]
                else:
                    assert delivery.status in (Status.DEAD, Status.PARKED)
        self.first_posts_are_in_order()


TestOrderedDelivery = OrderedDeliveryMachine.TestCase

TestOrderedDelivery.settings = SETTINGS
