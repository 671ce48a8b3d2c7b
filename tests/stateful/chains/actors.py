"""Receivers, dispatchers and producers: they do what the rules of a chain say, on the simulated world."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from bus.domain.ordering.chain import Segment, abandoned, produced_by
from bus.domain.ordering.effects import (
    CheckGroup,
    Effect,
    HasMark,
    IsDrained,
    KnownChain,
    Mark,
    OpenWriter,
    Procedure,
    PutChain,
    ReadChain,
    Refusal,
    WriteMessages,
)
from bus.domain.ordering.reader import ChainReader, Verdict
from bus.domain.ordering.sender import Admission, ChainSender
from bus.errors import NotLeader
from bus.ports.broker_group import AWAY
from tests.stateful.chains.places import Coordinator, Entry, Group, Sent, Session, Subscriber
from tests.stateful.chains.world import Call, Coroutine, Host, Reply, Sleep

_TAKEOVER: Final = 5.0
_GIVEN_UP: Final = 0.5


class Places(NamedTuple):
    """All that processes reach."""

    coordinator: Coordinator
    groups: Mapping[str, Group]
    subscribers: Mapping[str, Subscriber]


class Rules(NamedTuple):
    """How the rules are made; a planted bug changes one."""

    sender: Callable[..., ChainSender] = ChainSender
    reader: Callable[..., ChainReader] = ChainReader
    checks_lease: bool = True


def performed(procedure: Procedure[Any], does: Callable[[Effect], Call]) -> Coroutine:
    """Run a procedure, each effect of it as a call."""
    value = None
    while True:
        try:
            effect = procedure.send(value)
        except StopIteration as end:
            return end.value
        value = yield does(effect)


class _Process:
    """What receivers and dispatchers have in common."""

    def __init__(self, host: Host, places: Places) -> None:
        self.host = host
        self.places = places

    def do(self, effect: Effect) -> Call:
        """Return the call that an effect is."""
        coordinator = self.places.coordinator
        match effect:
            case ReadChain():
                return Call(coordinator.name, coordinator.read, Refusal.UNKNOWN, 2.0)
            case PutChain(chain, version):
                return Call(
                    coordinator.name, lambda reply: coordinator.put(chain, version, reply), Refusal.UNKNOWN, 2.0
                )
            case CheckGroup(group):
                return Call(group, self.places.groups[group].stand, AWAY, 2.0)
            case Mark(group, known):
                return Call(group, lambda reply: self.places.groups[group].mark(known, reply), "", 2.0)
            case HasMark(group, mark):
                return Call(group, lambda reply: self.places.groups[group].has_mark(mark, reply), None, 2.0)
        return self.do_own(effect)

    def do_own(self, effect: Effect) -> Call:
        """Return the call that another effect is."""
        raise NotImplementedError

    def perform(self, procedure: Procedure[Any]) -> Coroutine:
        """Run a procedure."""
        return performed(procedure, self.do)


class _Request(NamedTuple):
    message: Sent
    admission: Admission
    reply: Reply


class Receiver(_Process):
    """Writes what producers send, one after another."""

    def __init__(self, host: Host, places: Places, rules: Rules) -> None:
        super().__init__(host, places)
        self.sender = rules.sender(host.name, "", list(places.groups), host.clock, lambda: 0)
        self._writers: dict[str, object] = {}
        self._requests: deque[_Request] = deque()
        host.spawn(self._tend())
        host.spawn(self._look_around())
        self._is_working = False

    def do_own(self, effect: Effect) -> Call:
        """Open writers and write."""
        match effect:
            case OpenWriter(group):
                writer = self._writers[group] = object()
                return Call(group, lambda reply: self.places.groups[group].open(writer, reply), default=False)
            case WriteMessages(group, epoch, messages):
                entries = [Entry(message, epoch) for message in messages]  # type: ignore[arg-type]
                writer = self._writers.get(group)
                return Call(group, lambda reply: self.places.groups[group].write(writer, entries, reply), 0)
        raise NotImplementedError

    def take(self, message: Sent, producer: int, reply: Reply) -> None:
        """Take a request: answered with whether the message is held, None when another process is to be asked."""
        if not self.sender.tenure.is_held:
            reply(None)
        else:
            self._requests.append(_Request(message, Admission(self.sender.tenure.epoch, producer), reply))
            if not self._is_working:
                self._is_working = True
                self.host.spawn(self._work())

    def take_again(self, message: Sent, reply: Reply) -> None:
        """Take what came too late."""
        chain = self.sender.copy.chain
        self.take(message, chain.admits if chain is not None else 0, reply)

    def produce(self, owner: str, reply: Reply) -> None:
        """Let a producer send alone, if no other one does."""
        self.host.spawn(self._answer(self.sender.produce(owner, _TAKEOVER), reply))

    def release(self, owner: str, reply: Reply) -> None:
        """Let others send after a producer."""
        self.host.spawn(self._answer(self.sender.release(owner), reply))

    def _answer(self, procedure: Procedure[Any], reply: Reply) -> Coroutine:
        if found := (yield from self.perform(procedure)):
            reply(found)

    def _tend(self) -> Coroutine:
        while True:
            yield from self.perform(self.sender.tend())
            yield Sleep(1.0)

    def _look_around(self) -> Coroutine:
        while True:
            yield Sleep(5.0)
            yield from self.perform(self.sender.look_around())

    def _work(self) -> Coroutine:
        while self._requests:
            request = self._requests.popleft()
            try:
                count = yield from self.perform(self.sender.send((request.message,), request.admission))  # type: ignore[arg-type]
            except NotLeader:
                request.reply(None)
            else:
                request.reply(bool(count))
        self._is_working = False


class Dispatcher(_Process):
    """Gives each subscription what it reads, one message after another."""

    def __init__(self, host: Host, places: Places, rules: Rules, receivers: Callable[[], Collection[Receiver]]) -> None:
        super().__init__(host, places)
        self.reader = rules.reader(host.name, "", places.subscribers.keys, host.clock, lambda: 0)
        self._checks_lease = rules.checks_lease
        self._receivers = receivers
        self._sessions: dict[tuple[str, str], Session] = {}
        host.spawn(self._tend())
        for name in places.subscribers:
            host.spawn(self._read(name))
        host.spawn(self._clear())

    def do_own(self, effect: Effect) -> Call:
        """Ask whether something is drained."""
        match effect:
            case IsDrained(group, subscription):
                session = self._sessions.get((group, subscription))
                act = self.places.groups[group].is_drained
                return Call(group, lambda reply: act(session, subscription, reply), default=False)
        raise NotImplementedError

    def _tend(self) -> Coroutine:
        while True:
            yield from self.perform(self.reader.tend())
            yield Sleep(1.0)

    def _read(self, name: str) -> Coroutine:
        while True:
            segment = yield from self.perform(self.reader.next_for(name))
            if segment is None:
                yield Sleep(0.5)
                continue
            group = self.places.groups[segment.group]
            session = self._sessions[segment.group, name] = Session(self.host)
            group.join(session, name)
            yield from self._read_segment(name, segment, group, session)
            group.leave(session, name)

    def _read_segment(self, name: str, segment: Segment, group: Group, session: Session) -> Coroutine:
        behind = 0
        while (yield from self.perform(self.reader.next_for(name))) == segment or not self._checks_lease:
            got = yield Call(
                group.name, lambda reply, behind=behind: group.receive(session, name, behind, reply), [], 1.0
            )
            for place, entry in got:
                if not (yield from self._give(name, segment, entry)):
                    return
                act = partial(group.ack, session, name, place)
                if not (yield Call(group.name, act, None, 1.0)):
                    return  # as when a connection is lost: what was not acked comes again
                behind = place + 1
            if not got:
                if (yield from self.perform(self.reader.leave(name, segment))):
                    return
                yield Sleep(0.4)

    def _give(self, name: str, segment: Segment, entry: Entry) -> Coroutine:
        """Deliver an entry, or have it sent again; whether it is done with."""
        verdict = yield from self.perform(self.reader.judge(name, segment, entry.epoch))
        if verdict is Verdict.LATE:
            return (yield from self._send_again(name, entry))
        if verdict is Verdict.UNKNOWN and self._checks_lease:
            return False
        subscriber = self.places.subscribers[name]
        while self.reader.tenure.is_held or not self._checks_lease:
            if (yield Call(subscriber.name, lambda reply: subscriber.take(entry.message, reply), None, 3.0)):
                return True
        return False

    def _send_again(self, name: str, entry: Entry) -> Coroutine:
        if entry.message.number in self.places.subscribers[name].first:
            return True
        message = Sent(entry.message.number, is_again=True)
        for receiver in itertools.cycle(self._receivers()):
            if not self.reader.tenure.is_held:
                return False
            if (
                yield Call(
                    receiver.host.name, lambda reply, receiver=receiver: receiver.take_again(message, reply), None
                )
            ):
                return True
            yield Sleep(0.5)
        return False

    def _clear(self) -> Coroutine:
        """Have what groups outside of the chain still hold sent again: it landed there too late."""
        while True:
            yield Sleep(2.0)
            for group in self.places.groups.values():
                if (yield from self._is_left_over(group)):
                    for name in self.places.subscribers:
                        yield from self._clear_queue(group, name)

    def _is_left_over(self, group: Group) -> Coroutine:
        chain = yield from self.perform(self.reader.copy.read())
        tenure = self.reader.tenure
        if chain is None or not (tenure.is_held and tenure.is_mine(chain)) or chain.holds(group.name):
            return False
        standing = yield self.do(CheckGroup(group.name))
        return standing.is_whole and not standing.is_empty

    def _clear_queue(self, group: Group, name: str) -> Coroutine:
        session = Session(self.host)
        group.join(session, name)
        while (yield from self._is_left_over(group)):
            got = yield Call(group.name, lambda reply: group.receive(session, name, 0, reply), [], 1.0)
            for place, entry in got[:1]:
                if (yield from self._send_again(name, entry)):
                    yield Call(group.name, lambda reply, place=place: group.ack(session, name, place, reply), None, 1.0)
            if not got:
                break
        group.leave(session, name)


class Person:
    """Lets readers continue past the losses of groups with their disks, once the chain has them."""

    def __init__(self, host: Host, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        host.spawn(self._decide())

    def _decide(self) -> Coroutine:
        coordinator = self._coordinator
        while True:
            yield Sleep(5.0)
            known = yield Call(coordinator.name, coordinator.read, Refusal.UNKNOWN)
            groups = [one.group for one in known.chain.consume if one.is_lost] if isinstance(known, KnownChain) else []
            if groups:
                act = partial(coordinator.put, abandoned(known.chain, groups[0]), known.version)
                yield Call(coordinator.name, act, Refusal.UNKNOWN)


class Producer:
    """Sends messages one after another, alone; now and then it dies, and a successor goes on.

    What the dead one left is sent in its name, and its lease released then; or a person gives it up; or the successor
    waits until it may take over.
    """

    def __init__(
        self,
        host: Host,
        coordinator: Coordinator,
        receivers: Callable[[], list[Receiver]],
        count: int,
        *,
        dies: float,
        swept: float,
    ) -> None:
        self.host = host
        self.acked: list[int] = []
        self.is_over = False
        self._coordinator = coordinator
        self._receivers = receivers
        self._count = count
        self._dies = dies
        self._swept = swept
        host.spawn(self._send_all())

    def _send_all(self) -> Coroutine:
        dice = self.host.world.dice
        epoch = yield from self._take_lease(0)
        for number in range(self._count):
            if (yield from self._send_until_it_dies(number, epoch)):
                self.acked.append(number)
            else:
                if dice.random() < self._swept:
                    yield from self._sweep(number, epoch)
                elif dice.random() < _GIVEN_UP:
                    yield from self._give_up()
                epoch = yield from self._take_lease(number + 1)
            yield Sleep(dice.choice((0.0, 0.0, 0.3, 1.0)))
        self.is_over = True

    def _send_until_it_dies(self, number: int, epoch: int) -> Coroutine:
        while not (yield from self._send(number, epoch)):
            if self.host.world.dice.random() < self._dies:
                return False
            yield Sleep(0.3)
        return True

    def _sweep(self, number: int, epoch: int) -> Coroutine:
        """Send what a dead one left, and release its lease."""
        while not (yield from self._send(number, epoch)):
            yield Sleep(0.3)
        self.acked.append(number)
        while not (yield from self._ask_all(lambda receiver: partial(receiver.release, _owner(self._life)))):
            yield Sleep(0.5)

    def _give_up(self) -> Coroutine:
        """Have nobody send alone, as a person decides, whatever is still on its way."""
        coordinator = self._coordinator
        while True:
            known = yield Call(coordinator.name, coordinator.read, Refusal.UNKNOWN)
            if isinstance(known, KnownChain):
                act = partial(coordinator.put, produced_by(known.chain, ""), known.version)
                if isinstance((yield Call(coordinator.name, act, Refusal.UNKNOWN)), int):
                    return
            yield Sleep(0.3)

    def _send(self, number: int, epoch: int) -> Coroutine:
        receivers = self._receivers()
        self.host.world.dice.shuffle(receivers)
        for receiver in receivers:
            place = receiver.host.name
            answer = yield Call(place, lambda reply, receiver=receiver: receiver.take(Sent(number), epoch, reply), None)
            if answer is not None:
                return answer
        return False

    def _take_lease(self, life: int) -> Coroutine:
        """Send alone from now on, and return the epoch."""
        self._life = life
        while True:
            lease = yield from self._ask_all(lambda receiver: partial(receiver.produce, _owner(life)))
            if lease is not None and lease.owner == _owner(life):
                return lease.epoch
            yield Sleep(0.5)

    def _ask_all(self, asking: Callable[[Receiver], Callable[[Reply], None]]) -> Coroutine:
        """Ask one receiver after another, until one says something."""
        for receiver in self._receivers():
            if (answer := (yield Call(receiver.host.name, asking(receiver), None))) is not None:
                return answer
        return None


def _owner(life: int) -> str:
    return f"producer-{life}"
