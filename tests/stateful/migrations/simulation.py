"""Migrations with several proxies, producers and consumers, where all that can fail does."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple

from bus.domain.routing.evidence import TopicObservation, Watch
from bus.domain.routing.migration import Migration, begin, pause, rollback, take
from bus.domain.routing.needs import StepEvidence, waits_for
from bus.domain.routing.rooms import Route
from bus.domain.routing.steps import Kind, Side, Step
from bus.errors import Conflict
from tests.stateful.migrations.clusters import INTERVAL, PARTITIONS, Client, Cluster, Consumer, Producer

TICK: Final = 0.25
_GONE_AFTER: Final = 5.0
_TROUBLED_FOR: Final = 120.0
_ENDS_WITHIN: Final = 400.0
_DRAINS_WITHIN: Final = 600.0
_EXPANDED: Final = 3


class Rules:
    """What is simulated; planted bugs change a part of it."""

    def waits(self, migration: Migration, seen: StepEvidence) -> bool:
        """Whether the next step is not taken yet."""
        return bool(waits_for(migration, seen))

    def route(self, migration: Migration) -> Route:
        """Return what proxies answer."""
        return migration.route

    def sight(self, cluster: Cluster) -> TopicObservation:
        """Return what is seen of a cluster."""
        return cluster.sight()

    def counts(self, said: Confirmation | None, life: int, migration: Migration) -> bool:
        """Whether a proxy has said that it has the step in force."""
        return said is not None and said == Confirmation(life, migration.turn)

    def roll_back(self, migration: Migration, now: int) -> Migration:
        """Return it on its way back."""
        return rollback(migration, now, "a person")


class Confirmation(NamedTuple):
    """The life and turn of which a proxy spoke."""

    life: int
    turn: int


class Store:
    """The document, and what proxies say; each may be cut off from it."""

    def __init__(self, migration: Migration) -> None:
        self.migration = migration
        self.version = 1
        self.lives: dict[int, int] = {}
        self.said: dict[int, Confirmation] = {}

    def replace(self, version: int, migration: Migration) -> bool:
        """Write by compare-and-set."""
        if version != self.version:
            return False
        self.migration, self.version = migration, version + 1
        return True


class Proxy:
    """One lookup proxy, which answers by what it knows, and keeps that over its death."""

    def __init__(self, number: int, store: Store, random: Random, rules: Rules) -> None:
        self.number = number
        self.random = random
        self.known, self.version = store.migration, store.version
        self.is_alive = False
        self.is_cut_off = False
        self.died_at = 0.0
        self._store = store
        self._rules = rules
        self.start(0.0)

    def start(self, now: float) -> None:
        """Begin another life, with what the store has, or what is on the disk.

        One whose membership has ended reaches the store: who is cut off and no member is not protected against.
        """
        self.is_alive = True
        self.is_cut_off = self.is_cut_off and self.number in self._store.lives
        self.watches = {side: Watch() for side in Side}
        self.turn, self.since = 0, None
        self.writing: tuple[float, int, Migration] | None = None
        self.follows_at = now + self.random.uniform(0.5, 1.0)
        if not self.is_cut_off:
            self._store.lives[self.number] = self._store.lives.get(self.number, 0) + 1
            self.known, self.version = self._store.migration, self._store.version

    def kill(self, now: float) -> None:
        """End this life."""
        self.is_alive, self.died_at = False, now

    def step(self, now: float, clusters: Mapping[str, Cluster]) -> None:
        """Write what was decided, and follow and decide once a second."""
        if self.writing is not None and now >= self.writing[0] and not self.is_cut_off:
            self._store.replace(*self.writing[1:])
            self.writing = None
        if now >= self.follows_at:
            self.follows_at = now + self.random.uniform(0.8, 1.2)
            if not self.is_cut_off:
                self.known, self.version = self._store.migration, self._store.version
                self._store.said[self.number] = Confirmation(self._store.lives[self.number], self.known.turn)
            self._decide(now, clusters)

    def _decide(self, now: float, clusters: Mapping[str, Cluster]) -> None:
        timed = {
            side: self.watches[side].note(self._rules.sight(clusters[self.known.cluster(side)]), now, now)
            for side in Side
        }
        missing = () if self._are_confirmed() else ("a proxy says nothing",)
        if missing or self.known.turn != self.turn:
            self.turn, self.since = self.known.turn, None
        if not missing and self.since is None:
            self.since = now
        in_force = now - self.since if self.since is not None else 0.0
        seen = StepEvidence(timed[Side.SOURCE], timed[Side.TARGET], missing, in_force)
        if self.known.paused or self.known.has_ended or self.writing is not None:
            return
        if self.known.step is Step.EXPANDING_SOURCE:
            clusters[self.known.source].expand(self.known.partitions)
        if not self._rules.waits(self.known, seen):
            after = take(self.known, round(now * 1000))
            self.writing = (now + self.random.choice([0, 0, 0.5, 3]), self.version, after)

    def _are_confirmed(self) -> bool:
        if self.is_cut_off:
            return False
        store = self._store
        return all(self._rules.counts(store.said.get(one), life, self.known) for one, life in store.lives.items())


class Simulation:
    """One seed: a migration of some kind while proxies die, are cut off and come back, until all is well again.

    Attributes
    ----------
    complaints
        What was broken.
    """

    def __init__(self, seed: int, rules: Rules | None = None, kind: Kind | None = None) -> None:
        self.random = Random(seed)
        self.rules = rules or Rules()
        self.kind = kind or self.random.choice(list(Kind))
        is_ordered = self.kind is not Kind.UNORDERED
        self.clusters = {name: Cluster(name) for name in "st"}
        partitions = PARTITIONS
        if self.kind is Kind.EXPANSION:
            partitions = _EXPANDED
            self.clusters["t"].expand(_EXPANDED)
        before = Route(("s",), self.random.choice([("s",), ("s", "t")]))
        migration = begin(
            "orders", 1, before, "t", kind=self.kind, partitions=partitions, interval=INTERVAL, by="", now=0, nodes={}
        )
        self.store = Store(migration)
        self.proxies = [Proxy(n, self.store, self.random, self.rules) for n in range(self.random.randint(1, 3))]
        self.producers = [Producer(f"k{n}", self.random) for n in range(3)]
        self.got: list[tuple[str, int]] = []
        self.consumers = [Consumer(self.random, self.got, is_ordered=is_ordered) for _ in range(2)]
        self.complaints: list[str] = []

    def run(self) -> Simulation:
        """Run to the end."""
        now = 0.0
        while now < _TROUBLED_FOR:
            now += TICK
            self._trouble(now)
            self._step(now)
        self._heal(now)
        ends = now + _ENDS_WITHIN
        while not self.store.migration.has_ended and now < ends:
            now += TICK
            self._step(now)
        for producer in self.producers:
            producer.is_ending = True
        ends = now + _DRAINS_WITHIN
        least = now + 2 * INTERVAL
        while now < least or (now < ends and any(cluster.waiting for cluster in self.clusters.values())):
            now += TICK
            self._step(now)
        self._judge()
        return self

    def _step(self, now: float) -> None:
        store = self.store
        for proxy in self.random.sample(self.proxies, len(self.proxies)):
            if proxy.is_alive:
                proxy.step(now, self.clusters)
            elif now - proxy.died_at > _GONE_AFTER:
                store.lives.pop(proxy.number, None)
        clients: list[Producer | Consumer] = [*self.producers, *self.consumers]
        for client in self.random.sample(clients, len(clients)):
            if now >= client.looks_at:
                client.look(now, self._answer(client))
            client.step(now, self.clusters)

    def _answer(self, client: Client) -> tuple[str, ...] | None:
        if not any(proxy.is_alive for proxy in self.proxies):
            return None
        if self.random.random() < 0.05:
            client.asks += 1
        while not (proxy := self.proxies[client.asks % len(self.proxies)]).is_alive:
            client.asks += 1
        route = self.rules.route(proxy.known)
        return route.produce if isinstance(client, Producer) else route.consume

    def _trouble(self, now: float) -> None:
        random = self.random
        for proxy in self.proxies:
            if proxy.is_alive and random.random() < 0.004:
                proxy.kill(now)
            elif not proxy.is_alive and random.random() < 0.05:
                proxy.start(now)
            if random.random() < (0.002 if proxy.is_cut_off else 0.005):
                # One that is cut off and starts finds the members as they were: it is one of them by its life before.
                proxy.is_cut_off = not proxy.is_cut_off and proxy.number in self.store.lives
        for cluster in self.clusters.values():
            if random.random() < 0.02:
                cluster.is_silent = not cluster.is_silent
        if random.random() < 0.01:
            random.choice(self.consumers).fail()
        if random.random() < 0.002:
            self._steer(now)

    def _steer(self, now: float) -> None:
        """Have a person roll back, pause or resume, whatever that is worth."""
        store = self.store
        try:
            if self.random.random() < 0.5:
                store.replace(store.version, self.rules.roll_back(store.migration, round(now * 1000)))
            else:
                store.replace(store.version, pause(store.migration, paused=not store.migration.paused))
        except Conflict:
            return

    def _heal(self, now: float) -> None:
        for cluster in self.clusters.values():
            cluster.is_silent = False
        for proxy in self.proxies:
            proxy.is_cut_off = False
            if not proxy.is_alive or proxy.number not in self.store.lives:
                proxy.start(now)
        if self.store.migration.paused:
            self.store.replace(self.store.version, pause(self.store.migration, paused=False))

    def _judge(self) -> None:
        migration = self.store.migration
        if not migration.has_ended:
            self.complaints.append(f"it stays at {migration.step}")
        left = {name: cluster.waiting for name, cluster in self.clusters.items() if cluster.waiting}
        if left:
            self.complaints.append(f"left behind: {left}")
        got = set(self.got)
        lost = [(p.key, n) for p in self.producers for n in range(1, p.confirmed + 1) if (p.key, n) not in got]
        if lost:
            self.complaints.append(f"lost: {lost[:5]}")
        if self.kind is not Kind.UNORDERED:
            self.complaints += self._inversions()

    def _inversions(self) -> list[str]:
        found, highest, seen = [], dict[str, int](), set[tuple[str, int]]()
        for key, number in self.got:
            if number < highest.get(key, 0) and (key, number) not in seen:
                found.append(f"inverted: {key} {number} behind {highest[key]}")
            seen.add((key, number))
            highest[key] = max(number, highest.get(key, 0))
        return found[:3]
