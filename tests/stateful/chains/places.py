"""The outside of the bus: the coordinator, groups of brokers, subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bus.domain.ordering.chain import Chain
from bus.domain.ordering.effects import KnownChain, Refusal
from bus.ports.broker_group import AWAY, GroupStatus
from tests.stateful.chains.world import Host, World

HEARTBEATS = 6.0


class Sent(NamedTuple):
    """A message by its number; ``is_again`` marks one that came too late and was sent again."""

    number: int
    is_again: bool = False


class Entry(NamedTuple):
    """A message that a group holds."""

    message: Sent
    epoch: int


class Coordinator:
    """One document with compare-and-set."""

    name = "coordinator"

    def __init__(self) -> None:
        self.is_up = True
        self.version = 0
        self.chain = Chain()

    def read(self, reply: Callable[[Any], None]) -> None:
        """Answer what is there."""
        if self.is_up:
            reply(KnownChain(self.chain, self.version))

    def put(self, chain: Chain, version: int, reply: Callable[[Any], None]) -> None:
        """Compare and set."""
        if not self.is_up:
            return
        if version != self.version:
            reply(Refusal.CONFLICT)
            return
        self.chain, self.version = chain, version + 1
        reply(self.version)


class Session:
    """A reader's hold on the queue of a subscription."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.life = host.life
        self.missed_since: float | None = None


class Group:
    """Brokers with copies of one log.

    A majority of three takes writes and can be read, as quorum queues do; or both of two take writes and any of them
    can be read, as Kafka does, which shuts out older writers.
    """

    def __init__(self, world: World, name: str, subscriptions: list[str], *, is_pair: bool) -> None:
        self.world = world
        self.name = name
        self.is_pair = is_pair
        self.copies = 2 if is_pair else 3
        self.up = self.copies
        self.log: list[Entry] = []
        self.late: list[Entry] = []
        self.acked = dict.fromkeys(subscriptions, 0)
        self.sessions: dict[str, list[Session]] = {name: [] for name in subscriptions}
        self.disks = 0
        self.base = 0  # the place of the first entry: acks of what was lost say nothing of what came since
        self.lost: dict[str, list[Entry]] = {name: [] for name in subscriptions}
        self._writer: object = None

    @property
    def _end(self) -> int:
        return self.base + len(self.log)

    @property
    def is_readable(self) -> bool:
        """Whether enough copies are up."""
        return self.up >= (1 if self.is_pair else 2)

    def set_up(self, copies: int) -> None:
        """Have so many copies up; with enough of them, what hung in the air may land."""
        self.up = copies
        if copies >= 2:
            self.log += [entry for entry in self.late if self.world.dice.random() < 0.7]
            self.late.clear()

    def lose_disks(self) -> None:
        """Begin anew with nothing; readers connect again by themselves, a writer does not."""
        for name, acked in self.acked.items():
            self.lost[name] += self.log[acked - self.base :]
            self.acked[name] = self._end
        self.disks, self.base = self.disks + 1, self._end
        self.log, self.late, self._writer = [], [], None

    def mark(self, known: str, reply: Callable[[Any], None]) -> None:
        """Name the disks, those that had a known mark where there is one."""
        if self.up == self.copies:
            reply(known or f"{self.name}{self.disks}")

    def has_mark(self, mark: str, reply: Callable[[Any], None]) -> None:
        """Say whether these are the disks; that they are not only while all of them are there."""
        if self.is_readable and mark == f"{self.name}{self.disks}":
            reply(True)
        elif self.up == self.copies:
            reply(False)

    def open(self, writer: object, reply: Callable[[Any], None]) -> None:
        """Take a writer."""
        if self.up == self.copies:
            self._writer = writer
            reply(True)
        elif self.up:
            reply(False)

    def write(self, writer: object, entries: list[Entry], reply: Callable[[Any], None]) -> None:
        """Append entries, and confirm as many as are sure."""
        if writer is not self._writer and (self.is_pair or self._writer is None):
            reply(0)
            return
        count = 0
        for entry in entries:
            if self.up < self.copies:
                if self.world.dice.random() < 0.5:
                    (self.log if self.up >= 2 else self.late).append(entry)
                break
            self.log.append(entry)
            count += 1
        if self.up:
            reply(count)

    def stand(self, reply: Callable[[Any], None]) -> None:
        """Say how it stands."""
        if self.up:
            is_empty = all(acked == self._end for acked in self.acked.values())
            reply(GroupStatus(is_whole=True, is_empty=is_empty) if self.up == self.copies else AWAY)

    def join(self, session: Session, subscription: str) -> None:
        """Queue up for a subscription."""
        self.sessions[subscription].append(session)

    def leave(self, session: Session, subscription: str) -> None:
        """Let the next one in."""
        if session in self.sessions[subscription]:
            self.sessions[subscription].remove(session)

    def receive(self, session: Session, subscription: str, behind: int, reply: Callable[[Any], None]) -> None:
        """Answer with some of what is not acked, from a place on."""
        if self.is_readable and self._is_active(session, subscription):
            begin = max(self.acked[subscription], behind)
            place = begin - self.base
            reply(list(enumerate(self.log[place : place + 3], begin)))

    def ack(self, session: Session, subscription: str, place: int, reply: Callable[[Any], None]) -> None:
        """Forget what was read."""
        if self.is_readable and self._is_active(session, subscription):
            self.acked[subscription] = max(self.acked[subscription], place + 1)
            reply(True)

    def is_drained(self, session: Session | None, subscription: str, reply: Callable[[Any], None]) -> None:
        """Say whether all is acked."""
        if self.is_readable and session is not None and self._is_active(session, subscription):
            reply(self.acked[subscription] == self._end)

    def _is_active(self, session: Session, subscription: str) -> bool:
        waiting = self.sessions[subscription]
        while waiting and self._is_gone(waiting[0]):
            waiting.pop(0)
        return waiting[:1] == [session]

    def _is_gone(self, session: Session) -> bool:
        """Whether a session's heartbeats were missed; those of a process that crashed end with its connection."""
        host = session.host
        if not host.is_up or host.life != session.life:
            return True
        if not host.is_still and not self.world.is_cut(host.name, self.name):
            session.missed_since = None
            return False
        if session.missed_since is None:
            session.missed_since = self.world.now
        return self.world.now - session.missed_since > HEARTBEATS


class Subscriber:
    """Takes messages, and remembers in which order they came first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True
        self.first: dict[int, bool] = {}

    def take(self, message: Sent, reply: Callable[[Any], None]) -> None:
        """Take a message."""
        if not self.is_up:
            return
        self.first.setdefault(message.number, message.is_again)
        reply(True)
