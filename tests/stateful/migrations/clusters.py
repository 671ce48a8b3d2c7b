"""Two clusters with one topic, and clients that go where their last lookup said."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from bus.domain.routing.evidence import ChannelSeen, PartSeen, TopicObservation

INTERVAL: Final = 10.0
PARTITIONS: Final = 2
LANDS_WITHIN: Final = 0.5
ANSWERED_WITHIN: Final = 1.5
Numbered = tuple[str, int]


class Partition:
    """What waits in order, what a consumer holds, and how much was written."""

    def __init__(self) -> None:
        self.pending: deque[Numbered] = deque()
        self.in_flight: dict[Numbered, Consumer] = {}
        self.deferred: list[tuple[float, Numbered]] = []
        self.written = 0

    @property
    def waiting(self) -> int:
        return len(self.pending) + len(self.in_flight) + len(self.deferred)

    def write(self, message: Numbered) -> None:
        self.pending.append(message)
        self.written += 1

    def give_back(self, consumer: Consumer) -> None:
        for message in [one for one, held_by in self.in_flight.items() if held_by is consumer]:
            del self.in_flight[message]
            self.pending.appendleft(message)

    def wake(self, now: float) -> None:
        for due, message in list(self.deferred):
            if due <= now:
                self.deferred.remove((due, message))
                self.pending.append(message)


class Cluster:
    """A cluster of some partitions; ``is_silent`` while one of its nsqds cannot be asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions = [Partition() for _ in range(PARTITIONS)]
        self.writers: set[Producer] = set()
        self.readers: set[Consumer] = set()
        self.is_silent = False

    @property
    def waiting(self) -> int:
        return sum(one.waiting for one in self.partitions)

    def place(self, key: str) -> Partition:
        return self.partitions[sum(key.encode()) % len(self.partitions)]

    def expand(self, count: int) -> None:
        self.partitions += [Partition() for _ in range(count - len(self.partitions))]

    def sight(self) -> TopicObservation:
        """Return what its nsqds tell, without those that are silent."""
        parts = tuple(
            PartSeen(
                f"{self.name}:1/{number}",
                1,
                one.written,
                0,
                (ChannelSeen("c", len(one.pending), len(one.in_flight), len(one.deferred), len(self.readers)),),
            )
            for number, one in enumerate(self.partitions)
            if not (self.is_silent and number == 0)
        )
        return TopicObservation(
            cluster=self.name,
            exists=True,
            partitions=len(self.partitions),
            meta={"ordered": True},
            parts=parts,
            producers=len(self.writers),
            unknown=("an nsqd is silent",) if self.is_silent else (),
        )


class Client:
    """Looks up within every interval, and learns the answer a little later."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.looks_at = random.uniform(0, INTERVAL)
        self.answers: list[tuple[float, tuple[str, ...]]] = []
        self.asks = random.randrange(60)
        """Which proxy it asks, of however many there are; the next one when that is dead."""

    def look(self, now: float, route: tuple[str, ...] | None) -> None:
        """Ask, now that it is time; None when no proxy answers."""
        self.looks_at = now + self.random.uniform(1, INTERVAL)
        if route is not None:
            self.answers.append((now + self.random.uniform(0, ANSWERED_WITHIN), route))
        else:
            self.looks_at = now + 0.5

    def learned(self, now: float) -> tuple[str, ...] | None:
        """Return the last answer that has come since."""
        found = [route for at, route in self.answers if at <= now]
        self.answers = [one for one in self.answers if one[0] > now]
        return found[-1] if found else None


class Producer(Client):
    """Writes the numbers of its key one after the other, each until a cluster has it.

    It connects when it writes; now and then it has nothing to write for a while, and closes its connection.
    """

    def __init__(self, key: str, random: Random) -> None:
        super().__init__(random)
        self.key = key
        self.confirmed = 0
        self.cluster: Cluster | None = None
        self.landing: tuple[float, Cluster] | None = None
        self.is_ending = False
        self.idle_until = 0.0

    def step(self, now: float, clusters: dict[str, Cluster]) -> None:
        found = self.learned(now)
        if found is not None:
            wanted = clusters[found[0]] if found else None
            if wanted is not self.cluster and self.cluster is not None:
                self.cluster.writers.discard(self)
            self.cluster = wanted
        if self.landing is not None:
            self._land(now)
        elif self.cluster is None or self.is_ending or now < self.idle_until:
            return
        elif self.random.random() < 0.01:
            self.idle_until = now + self.random.uniform(2, 4 * INTERVAL)
            self.cluster.writers.discard(self)
        elif self.random.random() < 0.08:
            self.cluster.writers.add(self)
            self.landing = (now + self.random.uniform(0, LANDS_WITHIN), self.cluster)

    def _land(self, now: float) -> None:
        assert self.landing is not None
        at, cluster = self.landing
        if now < at:
            return
        self.landing = None
        cluster.place(self.key).write((self.key, self.confirmed + 1))
        if cluster is self.cluster:  # else its confirmation is not heard, and it is written again elsewhere
            self.confirmed += 1


class Consumer(Client):
    """Takes one message after the other from where it is subscribed; of an ordered partition one at a time.

    Now and then it is too busy for a while, with what it holds.
    """

    def __init__(self, random: Random, got: list[Numbered], *, is_ordered: bool) -> None:
        super().__init__(random)
        self.is_ordered = is_ordered
        self.clusters: list[Cluster] = []
        self.got = got
        self.busy_until = 0.0

    def step(self, now: float, clusters: dict[str, Cluster]) -> None:
        found = self.learned(now)
        if found is not None:
            self._follow([clusters[name] for name in found])
        if now < self.busy_until:
            return
        if self.random.random() < 0.005:
            self.busy_until = now + self.random.uniform(2, 4 * INTERVAL)
        for cluster in self.clusters:
            for partition in cluster.partitions:
                partition.wake(now)
                if self.random.random() < 0.4:
                    self._work(partition, now)

    def fail(self) -> None:
        """Lose all connections; it looks up again."""
        self._follow([])
        self.answers.clear()
        self.looks_at = 0.0

    def _follow(self, wanted: list[Cluster]) -> None:
        for gone in [one for one in self.clusters if one not in wanted]:
            gone.readers.discard(self)
            for partition in gone.partitions:
                partition.give_back(self)
        for cluster in wanted:
            cluster.readers.add(self)
        self.clusters = wanted

    def _work(self, partition: Partition, now: float) -> None:
        held = [message for message, consumer in partition.in_flight.items() if consumer is self]
        if held and self.random.random() < 0.7:
            message = held[0]
            del partition.in_flight[message]
            if not self.is_ordered and self.random.random() < 0.1:
                partition.deferred.append((now + self.random.uniform(0, 3 * INTERVAL), message))
            else:
                self.got.append(message)
        elif partition.pending and not (self.is_ordered and partition.in_flight):
            partition.in_flight[partition.pending.popleft()] = self
