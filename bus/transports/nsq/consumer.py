"""One subscription's consumer: one connection to each nsqd, or each partition, that has its topic."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from bus.domain.destination import TransportName
from bus.errors import SpoolError
from bus.localized_text import AnyText
from bus.ports.quarantine import ForeignRecord, Quarantine
from bus.ports.transport import IncomingMessage
from bus.transports.backoff import Backoff
from bus.transports.nsq.buffer import InFlightMessage, NodeBuffer, State
from bus.transports.nsq.codec import unwrap
from bus.transports.nsq.flow import Demand, share
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.protocol.frames import name_of, read_message
from bus.transports.nsq.receipts import receipt_of
from bus.transports.nsq.source import Place, Source
from bus.transports.nsq.topology import Lane

_log = logging.getLogger(__name__)
_IDLE_AFTER: Final = 5.0
_SHARE_EVERY: Final = 0.5
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class NsqConsumer:
    """Receives from all nsqds of a topic at once, as much as it is asked for.

    As many messages are in flight as the receiver holds and asks for, shared out over the connections. When no receiver
    asks any more, buffered messages go back, so that another dispatcher gets them. A receiver that gives messages back
    again and again without finishing any waits longer each time.

    Parameters
    ----------
    closed
        Called once, when it is closed.
    """

    def __init__(
        self, lane: Lane, dependencies: Dependencies, quarantine: Quarantine, closed: Callable[[NsqConsumer], None]
    ) -> None:
        self.lane = lane
        self._dependencies = dependencies
        self._clock = dependencies.clock
        self._quarantine = quarantine
        self._on_closed = closed
        self._buffers: dict[Place, NodeBuffer] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._spawn: Spawn | None = None
        self._waiting: deque[InFlightMessage] = deque()
        self._arrival = asyncio.Event()
        self._taken = 0
        self._demand = Demand(dependencies.config.max_in_flight)
        self._asking = 0
        self._asked = 0.0
        self._shared = 0.0
        self._pace = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, dependencies.noise)
        self._gave_back = False
        self._paused_until = 0.0
        self._foreign: deque[tuple[InFlightMessage, str]] = deque()
        self._setting_aside: asyncio.Task[None] | None = None

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages and return at least one, at most ``limit``."""
        self._asking += 1
        try:
            if (pause := self._paused_until - self._clock.monotonic()) > 0:
                await self._clock.sleep(pause)
            while True:
                self._ask(limit)
                if found := self._take(limit):
                    return found
                self._ask(limit)  # what was set aside just now is held as well
                self._arrival.clear()
                await self._arrival.wait()
        finally:
            self._asking -= 1
            self._asked = self._clock.monotonic()

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages; those that timed out at nsqd come again, here or at another consumer.

        What comes again here since its connection was gone is finished then, and not handed out.
        """
        taken = self._let_go(incoming)
        for buffer, messages in _by_buffer(taken).items():
            buffer.finish(messages)
        if taken:
            self._gave_back = False
            self._pace.succeed()

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Put messages in front of the buffered ones; when no receiver asks for them, they go back to nsqd."""
        released = [held for held in self._let_go(incoming) if held.buffer.take_back(held)]
        self._waiting.extendleft(reversed(released))
        if released:
            if self._gave_back:
                self._paused_until = self._clock.monotonic() + self._pace.fail()
                self.rest()
            self._gave_back = True
            self._arrival.set()

    async def close(self) -> None:
        """Give back held messages in order of arrival, and leave; waits for one time-out at most."""
        self._on_closed(self)
        self._spawn = None
        if self._setting_aside is not None:
            self._setting_aside.cancel()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._dependencies.config.timeout), asyncio.TaskGroup() as group:
                    for buffer in self._buffers.values():
                        group.create_task(buffer.leave())
        finally:
            for task in self._tasks.values():
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def follow(self, sources: Iterable[Source], spawn: Spawn) -> None:
        """Have a connection to each of these, and to no other."""
        self._spawn = spawn
        wanted = {source.place: source for source in sources}
        for place, source in wanted.items():
            if (known := self._buffers.get(place)) is not None:
                known.turn(source)
                continue
            buffer = self._buffers[place] = NodeBuffer(source, self.lane, self, self._dependencies)
            self._tasks[place] = spawn(buffer.run())
        for place in self._buffers.keys() - wanted.keys():
            del self._buffers[place]
            self._tasks.pop(place).cancel()

    def refusals(self) -> dict[str, AnyText]:
        """Return which nsqds do not let it subscribe, and why."""
        return {
            f"nsqd {buffer.source} {self.lane.topic}/{self.lane.channel}": buffer.refusal
            for buffer in self._buffers.values()
            if buffer.refusal
        }

    @property
    def idle(self) -> bool:
        """Whether no receiver has asked for messages for a while."""
        return not self._asking and self._clock.monotonic() - self._asked >= _IDLE_AFTER

    def arrived(self, messages: list[InFlightMessage]) -> None:
        """Take new messages."""
        self._waiting.extend(messages)
        self._arrival.set()

    def reconsider(self) -> None:
        """Distribute the messages in flight anew, and forget those that do not wait here any more."""
        self._waiting = deque(held for held in self._waiting if held.state is State.WAITING)
        self._share()

    def rest(self) -> None:
        """Want no messages until asked again."""
        self._demand.resting = True
        self._share()

    def _ask(self, limit: int) -> None:
        changed = self._demand.ask(limit, self._taken + len(self._foreign))
        if changed or any(buffer.full for buffer in self._buffers.values()) or self._share_is_old():
            self._share()

    def _share_is_old(self) -> bool:
        return len(self._buffers) > 1 and self._clock.monotonic() - self._shared >= _SHARE_EVERY

    def _share(self) -> None:
        self._shared = self._clock.monotonic()
        linked = [buffer for buffer in self._buffers.values() if buffer.linked]
        for buffer, count in zip(linked, share(self._demand.total, [one.load for one in linked]), strict=True):
            buffer.allow(count)

    def _take(self, limit: int) -> list[IncomingMessage]:
        waiting, now = self._waiting, self._clock.monotonic()
        found: list[IncomingMessage] = []
        while waiting and len(found) < limit:
            held = waiting.popleft()
            if not held.buffer.fresh(held, now):
                continue
            held.state = State.TAKEN
            try:
                message = unwrap(held.payload[held.body_at :])
            except ValueError as error:
                self._set_aside(held, str(error))
                continue
            found.append(IncomingMessage(message, held, held.attempts > 1, receipt_of(held)))
        self._taken += len(found)
        return found

    def _let_go(self, incoming: Sequence[IncomingMessage]) -> list[InFlightMessage]:
        """Return the messages that are taken now, each once, and count them as taken no more."""
        tokens = dict.fromkeys(_held(item) for item in incoming)
        taken = [held for held in tokens if held.state is State.TAKEN]
        self._taken -= len(taken)
        return taken

    def _set_aside(self, held: InFlightMessage, reason: str) -> None:
        _log.warning("a message in %s/%s of nsqd %s is set aside: %s", *self.lane, held.buffer.source, reason)
        self._foreign.append((held, reason))
        if self._spawn is not None and (self._setting_aside is None or self._setting_aside.done()):
            self._setting_aside = self._spawn(self._keep_foreign())

    async def _keep_foreign(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._dependencies.noise)
        while self._foreign:
            held, reason = self._foreign[0]
            try:
                await self._quarantine.keep(_foreign(held, self.lane, reason))
            except SpoolError as error:
                _log.warning("a message that is not ours stays in NSQ, for it cannot be kept: %s", error)
                await self._clock.sleep(backoff.fail())
                continue
            self._foreign.popleft()
            held.buffer.finish([held])


def _foreign(held: InFlightMessage, lane: Lane, reason: str) -> ForeignRecord:
    published, attempts, message_id = read_message(held.payload)
    name = name_of(message_id)
    return ForeignRecord(
        transport=TransportName.NSQ,
        place=f"topic {lane.topic}, channel {lane.channel}, nsqd {held.buffer.source}, message {name}",
        reason=reason,
        headers={"timestamp": str(published), "attempts": str(attempts)},
        payload=held.payload[held.body_at :],
    )


def _held(incoming: IncomingMessage) -> InFlightMessage:
    if not isinstance(incoming.token, InFlightMessage):
        raise TypeError("this delivery came by another transport")
    return incoming.token


def _by_buffer(messages: Sequence[InFlightMessage]) -> dict[NodeBuffer, list[InFlightMessage]]:
    found: dict[NodeBuffer, list[InFlightMessage]] = {}
    for held in messages:
        found.setdefault(held.buffer, []).append(held)
    return found
