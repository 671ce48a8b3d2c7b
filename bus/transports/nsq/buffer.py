"""A consumer's connection to one nsqd or partition, and the messages in flight over it."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from bus.async_helpers import first_of
from bus.localized_text import AnyText, localized
from bus.telemetry import labels, metrics
from bus.transports.backoff import Backoff
from bus.transports.nsq.config import Address
from bus.transports.nsq.connection import Connection, connect
from bus.transports.nsq.errors import DEMANDING, ConnectionLost, ErrorFrame, NsqFault, PermissionRefused
from bus.transports.nsq.flow import Load
from bus.transports.nsq.node import FIRST_BACKOFF, LONGEST_BACKOFF, Dependencies
from bus.transports.nsq.partitions.order import explained
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.frames import read_message
from bus.transports.nsq.source import Source
from bus.transports.nsq.topology import Lane

_log = logging.getLogger(__name__)
_STAMP: Final = 8  # bytes of the time at which a message was published
_MS: Final = 1000
_TOUCHES: Final = 4
"""Times that a message is touched before its time-out would have been."""
_ACTIVE_FOR: Final = 2.0
_MOST_FINISHED: Final = 1000
_LATE: Final = 1000
"""How many ids are remembered of messages that were finished or given back too late, which nsqd may refuse."""


class State(enum.Enum):
    """The state of a message: in the consumer's buffer, with a receiver, or no longer held here."""

    WAITING = enum.auto()
    TAKEN = enum.auto()
    DONE = enum.auto()


class InFlightMessage:
    """A message in flight to this consumer.

    Attributes
    ----------
    connection
        The one over which it may be finished.
    source, payload, body_at
        Where it came from; its frame's payload, and where in that the body begins.
    since, touched
        When it came, and when its time-out began anew (monotonic).
    """

    __slots__ = ("attempts", "body_at", "buffer", "connection", "id", "payload", "since", "source", "state", "touched")

    def __init__(
        self,
        buffer: NodeBuffer,
        source: Source,
        connection: Connection,
        message_id: bytes,
        attempts: int,
        payload: bytes,
        body_at: int,
        now: float,
    ) -> None:
        self.buffer = buffer
        self.connection = connection
        self.id = message_id
        self.attempts = attempts
        self.payload = payload
        self.body_at = body_at
        self.source = source
        self.since = self.touched = now
        self.state = State.WAITING


class Owner(Protocol):
    """The consumer that a buffer belongs to."""

    @property
    def idle(self) -> bool:
        """Whether no receiver has asked for messages for a while."""
        ...

    def arrived(self, messages: list[InFlightMessage]) -> None:
        """Take new messages."""
        ...

    def reconsider(self) -> None:
        """Distribute the messages in flight anew, and forget those that do not wait here any more."""
        ...

    def rest(self) -> None:
        """Want no messages until asked again."""
        ...


class NodeBuffer:
    """Subscribes at one nsqd or partition, and retries without end; keeps the messages in flight from timing out.

    A partition that another nsqd leads by now is the same one: what is held of it stays. A message that nsqd delivers
    again while its receiver still holds it is not handed out a second time: finishing it then counts for the new
    delivery. One that was finished while there was no connection is finished as soon as it is delivered again.

    Attributes
    ----------
    refusal
        Why nsqd refuses the subscription; empty when it accepts it, or is unreachable.
    """

    def __init__(self, source: Source, lane: Lane, owner: Owner, dependencies: Dependencies) -> None:
        self._source = source
        self._subscribed = source
        self._lane = lane
        self._owner = owner
        self._config = dependencies.config
        self._clock = dependencies.clock
        self._noise = dependencies.noise
        self._haste = dependencies.haste
        self._turned = asyncio.Event()
        self._connection: Connection | None = None
        self._held: dict[bytes, InFlightMessage] = {}
        self._holding = asyncio.Event()
        self._allowed = 0
        self._overcounted = 0
        self._late: deque[bytes] = deque(maxlen=_LATE)
        self._finished: dict[bytes, bytes] = {}
        self._active_until = 0.0
        self._leaving = False
        self.refusal: AnyText = ""

    @property
    def source(self) -> Source:
        """The nsqd or partition that it reads."""
        return self._source

    @property
    def address(self) -> Address:
        """The nsqd that it subscribes at."""
        return self._source.address

    @property
    def linked(self) -> bool:
        """Whether messages can come."""
        return self._connection is not None

    @property
    def active(self) -> bool:
        """Whether recent messages came, or the connection is new."""
        return self._clock.monotonic() < self._active_until

    @property
    def load(self) -> Load:
        """The figures for its share of messages in flight."""
        most = self._connection.agreed.max_rdy_count if self._connection is not None else 0
        return Load(len(self._held), self.active, most)

    @property
    def full(self) -> bool:
        """Whether nsqd sends nothing more before something is finished."""
        return len(self._held) >= self._allowed

    async def run(self) -> None:
        """Keep the subscription up until the consumer leaves."""
        backoff = Backoff(FIRST_BACKOFF, LONGEST_BACKOFF, self._noise)
        while not self._leaving:
            fault = await self._live(backoff)
            self.refusal = explained(fault) if isinstance(fault, ErrorFrame | PermissionRefused) else ""
            _log.info("%s/%s at nsqd %s: %s", *self._lane, self._source, fault)
            if isinstance(fault, ErrorFrame) and fault.code in DEMANDING:
                self._haste.demanding.add(self._lane.topic)
            await self._pause(backoff)

    def turn(self, source: Source) -> None:
        """Subscribe to the same partition at its present leader; received messages stay with their receiver."""
        if source == self._source:
            return
        self._source = source
        self._turned.set()
        if (connection := self._connection) is not None:
            self._unlink()  # what is finished from now on has to wait for the next connection
            connection.end(ConnectionLost(localized("the partition is led elsewhere")))

    async def _pause(self, backoff: Backoff) -> None:
        """Wait before the next try; a partition is looked up meanwhile, and tried at once where it is found."""
        if self._source.partition is not None:
            self._haste.add(self._lane.topic)
        if not self._turned.is_set():
            await first_of(self._clock.sleep(backoff.fail()), self._turned.wait())
        self._turned.clear()

    async def _live(self, backoff: Backoff) -> NsqFault:
        connection: Connection | None = None
        source = self._source
        try:
            connection = await connect(source.address, self._config, is_extended=source.is_extended)
            connection.deliver = self._deliver
            connection.refused = self._refused
            async with asyncio.timeout(self._config.timeout):
                await connection.ask(source.subscribe(self._lane))
            if source != self._source:
                return ConnectionLost(localized("the partition is led elsewhere"))
            self._subscribed = source
            backoff.succeed()
            self.refusal = ""
            self._link(connection)
            async with asyncio.TaskGroup() as group:
                tending = group.create_task(self._tend(connection))
                fault = await connection.lost()
                tending.cancel()
        except TimeoutError:
            return ConnectionLost(localized("no answer to SUB within {seconds} s", seconds=f"{self._config.timeout:g}"))
        except NsqFault as error:
            return error
        else:
            return fault
        finally:
            self._unlink()
            if connection is not None:
                await connection.close()

    def allow(self, count: int) -> None:
        """Let so many messages be in flight over the connection."""
        if self._connection is not None and count != self._allowed:
            self._allowed = count
            self._tell_ready(self._connection)

    def _tell_ready(self, connection: Connection) -> None:
        """Send RDY: the number that is allowed and that by which nsqd counts too many on this connection; 0 stays 0."""
        ready = self._allowed + self._overcounted if self._allowed else 0
        if ready > connection.agreed.max_rdy_count:
            connection.give_up(
                ConnectionLost(localized("nsqd counts {count} messages too many in flight", count=self._overcounted))
            )
        else:
            connection.send(commands.rdy(ready))

    def fresh(self, held: InFlightMessage, now: float) -> bool:
        """Whether a waiting message is still this consumer's: else nsqd has given up waiting and delivers it again."""
        if held.state is State.WAITING and now - held.touched < held.connection.agreed.msg_timeout / _MS:
            return True
        if held.state is State.WAITING:
            self._forget(held)
        return False

    def take_back(self, held: InFlightMessage) -> bool:
        """Return a taken message to the buffer; False when another receiver has it by now."""
        if held.connection is self._connection:
            held.state = State.WAITING
            return True
        self._forget(held)
        return False

    def finish(self, messages: list[InFlightMessage]) -> None:
        """Finish messages; those whose connection is lost are finished when they come again."""
        for held in self._end(messages, commands.fin):
            self._finished[held.id] = held.payload[:_STAMP]
            if len(self._finished) > _MOST_FINISHED:
                del self._finished[next(iter(self._finished))]

    def give_back(self, messages: list[InFlightMessage]) -> None:
        """Have nsqd deliver messages again, to any consumer that is ready."""
        self._end(messages, commands.req)

    def _end(self, messages: list[InFlightMessage], command: Callable[[bytes], bytes]) -> list[InFlightMessage]:
        """Send nsqd the outcomes of messages; return those whose outcome cannot be sent on a lost connection."""
        ended = [held for held in messages if self._forget(held)]
        connection = self._connection if self._connection is not None and self._connection.alive else None
        mine = [held for held in ended if held.connection is connection]
        if mine and connection is not None:
            connection.send(b"".join([command(held.id) for held in mine]))
            now, agreed = self._clock.monotonic(), connection.agreed
            soon, later = agreed.msg_timeout / _MS, agreed.max_msg_timeout / _MS
            self._late += [held.id for held in mine if now - held.touched >= soon or now - held.since >= later]
        return [held for held in ended if held.connection is not connection]

    def _refused(self, message_id: bytes) -> None:
        """Make up for a message that nsqd sent but does not have in flight here, so that its end was refused.

        After a crash nsqd's queues have copies: one that it sent while another was in flight, here before its FIN
        came or at another consumer, stays counted on this connection. At a time-out nsqd takes it off by itself.
        """
        if self._connection is not None and message_id not in self._late:
            self._overcounted += 1
            self._tell_ready(self._connection)

    async def leave(self) -> None:
        """Give everything back and end the subscription; returns when nsqd has all that was sent."""
        self._leaving = True
        connection = self._connection
        if connection is None:
            return
        connection.send(commands.rdy(0))
        self.give_back(list(self._held.values()))
        try:
            await connection.ask(commands.CLS)
        except NsqFault as fault:
            _log.debug("%s/%s at nsqd %s: %s", *self._lane, self._source, fault)
        await connection.close()

    def _deliver(self, payloads: list[bytes]) -> None:
        connection = self._connection
        if connection is None:
            return
        now = self._clock.monotonic()
        was_active, self._active_until = self._active_until > now, now + _ACTIVE_FOR
        new: list[InFlightMessage] = []
        copies = False
        for payload in self._unfinished(connection, payloads) if self._finished else payloads:
            _, attempts, message_id = read_message(payload)
            if attempts > 1 and self._source.is_ordered:
                metrics.ORDERED_AGAIN.labels(*labels.SUBSCRIPTIONS.of(*self._lane)).inc()
            known = self._held.get(message_id)
            if known is not None and known.payload[:_STAMP] != payload[:_STAMP]:
                known = None  # a topic that was made anew counts ids from one again
            if known is not None and known.connection is connection and attempts <= known.attempts:
                # A copy with the same id, which nsqd has after a crash. It has one such id in flight, counts both on
                # the connection, and takes one off at FIN or at the time-out; so its count stays one too high.
                self._overcounted += 1
                copies = True
            if known is None:
                body_at = self._subscribed.form.body_at(payload)
                known = self._held[message_id] = InFlightMessage(
                    self, self._subscribed, connection, message_id, attempts, payload, body_at, now
                )
                new.append(known)
            else:
                known.connection, known.attempts, known.since, known.touched = connection, attempts, now, now
        self._holding.set()
        if copies:
            self._tell_ready(connection)
        if self._leaving:
            self.give_back(new)
        else:
            self._owner.arrived(new)
            if not was_active:
                self._owner.reconsider()

    def _unfinished(self, connection: Connection, payloads: list[bytes]) -> list[bytes]:
        """Finish messages that were finished while there was no connection, and return the rest."""
        left: list[bytes] = []
        for payload in payloads:
            message_id = read_message(payload)[2]
            if self._finished.get(message_id) == payload[:_STAMP]:
                connection.send(commands.fin(message_id))
            else:
                left.append(payload)
        return left

    def _forget(self, held: InFlightMessage) -> bool:
        """Hold a message no more; whether it was held until now."""
        if held.state is State.DONE:
            return False
        held.state = State.DONE
        if self._held.get(held.id) is not held:  # another message has its id by now
            return False
        del self._held[held.id]
        return True

    def _link(self, connection: Connection) -> None:
        self._connection = connection
        self._allowed = self._overcounted = 0
        self._late.clear()
        self._active_until = self._clock.monotonic() + _ACTIVE_FOR
        self._owner.reconsider()

    def _unlink(self) -> None:
        """Drop waiting messages: nsqd delivers them again. Received messages stay with their receiver."""
        if self._connection is not None:
            self._connection = None
            for held in [held for held in self._held.values() if held.state is State.WAITING]:
                self._forget(held)
            self._owner.reconsider()

    async def _tend(self, connection: Connection) -> None:
        """Touch messages that are held for long; return those that no receiver asks for."""
        pause = connection.agreed.msg_timeout / _MS / _TOUCHES
        oldest = connection.agreed.max_msg_timeout / _MS - 2 * pause
        while True:
            while not self._held:
                self._holding.clear()
                await self._holding.wait()
            await self._clock.sleep(pause)
            now = self._clock.monotonic()
            waiting = [held for held in self._held.values() if held.state is State.WAITING]
            if waiting and self._owner.idle:
                self._owner.rest()
            else:
                # It cannot be touched beyond nsqd's --max-msg-timeout.
                waiting = [held for held in waiting if now - held.since >= oldest]
            if waiting:
                self.give_back(waiting)
                self._owner.reconsider()
            self._touch(connection, now, pause)

    def _touch(self, connection: Connection, now: float, pause: float) -> None:
        due = [held for held in self._held.values() if held.connection is connection and now - held.touched >= pause]
        for held in due:
            held.touched = now
        if due:
            connection.send(b"".join([commands.touch(held.id) for held in due]))
