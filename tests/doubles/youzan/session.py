"""One connection of a client to an nsqd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tests.doubles.youzan import frames
from tests.doubles.youzan.channel import Channel, NotInFlight
from tests.doubles.youzan.frames import Command
from tests.doubles.youzan.identity import MOST_READY, Identity, identify
from tests.doubles.youzan.log import Entry
from tests.doubles.youzan.publishing import PUBLISHES, publish
from tests.doubles.youzan.refusals import Refused, invalid
from tests.doubles.youzan.subscribing import SUBSCRIBES, subscribe
from tests.doubles.youzan.topics import Partition

if TYPE_CHECKING:
    from tests.doubles.youzan.nsqd import Nsqd

_PATIENCE: Final = 3  # heartbeats without a word, after which the nsqd closes


class Session:
    """Reads commands one after the other, and sends messages as far as RDY allows.

    Parameters
    ----------
    nsqd
        Whose client this is.
    number
        Tells the connections of an nsqd apart.
    """

    def __init__(self, nsqd: Nsqd, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.identity = Identity.unknown(nsqd.limits)
        self.partition: Partition | None = None
        self.channel: Channel | None = None
        self.ready = 0
        self.remote = ":".join(map(str, writer.get_extra_info("peername") or ("gone", 0)))
        self._nsqd = nsqd
        self._reader = reader
        self._writer = writer
        self._closing = False
        self._extended = self._details = False
        self._beating: asyncio.Task[None] | None = None

    @property
    def wants_more(self) -> bool:
        """Whether RDY allows another message now."""
        if self._closing or self.channel is None or not self._nsqd.awake.is_set():
            return False
        return self.channel.held_by(self) < self.ready

    @property
    def msg_timeout(self) -> float:
        """Seconds that the client may take for a message."""
        return self.identity.msg_timeout

    def send(self, entry: Entry, attempts: int) -> None:
        """Send a message."""
        self._writer.write(frames.message(entry, attempts, extended=self._extended, details=self._details))
        self._nsqd.counters["delivered"] += 1

    async def run(self) -> None:
        """Serve the client until it goes, or is sent away."""
        self._beat()
        try:
            if await self._reader.readexactly(len(frames.MAGIC)) == frames.MAGIC:
                while await self._step():
                    pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        finally:
            self._leave()

    def abort(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()

    async def _step(self) -> bool:
        """Answer one command; tell whether the connection goes on."""
        try:
            async with asyncio.timeout(self.identity.heartbeat * _PATIENCE or None):
                command = await frames.read_command(self._reader)
            await self._nsqd.awake.wait()
            answer = await self._answer(command)
        except Refused as refused:
            self._writer.write(frames.frame(frames.ERROR, refused.text.encode()))
            self._nsqd.counters[refused.code] += 1
            answer, goes_on = None, not refused.closes
        else:
            goes_on = True
        if answer is not None:
            self._writer.write(frames.frame(frames.RESPONSE, answer))
        await self._writer.drain()
        return goes_on

    async def _answer(self, command: Command) -> bytes | None:
        if command.name in PUBLISHES:
            return await self._publish(command)
        self._nsqd.note(self, command)
        if command.name in SUBSCRIBES:
            return self._subscribe(command)
        handle = _COMMANDS.get(command.name)
        if handle is None:
            raise invalid(f"invalid command {command.name}")
        return await handle(self, command)

    async def _identify(self, _: Command) -> bytes:
        body = await frames.read_body(self._reader, frames.LARGEST_BODY)
        if self.channel is not None:
            raise invalid("cannot IDENTIFY in current state")
        self.identity, answer = identify(body, self._nsqd.limits)
        self._nsqd.introduce(body)
        self._beat()
        return answer

    async def _publish(self, command: Command) -> bytes:
        largest = frames.LARGEST_BODY if command.name.startswith("M") else frames.LARGEST_MESSAGE
        if not command.params:
            raise invalid("insufficient number of parameters")
        body = await frames.read_body(self._reader, largest)
        self._nsqd.note(self, command)
        partition, entries, answer = publish(self._nsqd.topics, self._nsqd.number, command, body)
        self._nsqd.published(partition, entries)
        if partition.loses_answer():
            self.abort()
            raise ConnectionAbortedError
        return answer

    def _subscribe(self, command: Command) -> bytes:
        if self.channel is not None:
            raise invalid("cannot SUB in current state")
        topic, partition, channel = subscribe(self._nsqd.topics, self._nsqd.number, command, self.identity)
        self._extended = topic.meta.extend_support
        self._details = command.name != "SUB"
        self.partition, self.channel = partition, channel
        channel.join(self)
        self._nsqd.changed()
        return b"OK"

    async def _set_ready(self, command: Command) -> None:
        if self._closing:
            return
        channel = self._subscribed("RDY")
        count = _number(command, 0, "RDY could not parse count") if command.params else 1
        if not 0 <= count <= MOST_READY:
            raise invalid(f"RDY count {count} out of range 0-{MOST_READY}")
        self.ready = count
        channel.hand_out(self._nsqd.now())

    async def _finish(self, command: Command) -> None:
        channel, message = self._subscribed("FIN"), _id(command)
        with _failing(command):
            channel.finish(self, message)
        self._nsqd.counters["finished"] += 1
        channel.hand_out(self._nsqd.now())

    async def _requeue(self, command: Command) -> None:
        channel, message = self._subscribed("REQ"), _id(command)
        if len(command.params) < 2:
            raise invalid("REQ insufficient number of params")
        delay = max(_number(command, 1, "REQ could not parse timeout"), 0) / 1000
        with _failing(command):
            channel.requeue(self, message, delay, self._nsqd.now())
        self._nsqd.counters["requeued"] += 1
        channel.hand_out(self._nsqd.now())

    async def _touch(self, command: Command) -> None:
        channel, message = self._subscribed("TOUCH"), _id(command)
        with _failing(command):
            channel.touch(self, message, self._nsqd.now())

    async def _start_close(self, _: Command) -> bytes:
        self._subscribed("CLS")
        if self._closing:
            raise invalid("cannot CLS in current state")
        self._closing = True
        return b"CLOSE_WAIT"

    async def _nothing(self, _: Command) -> None:
        pass

    def _subscribed(self, name: str) -> Channel:
        if self.channel is None:
            raise invalid(f"cannot {name} in current state")
        return self.channel

    def _beat(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        self._beating = asyncio.create_task(self._heartbeats())

    async def _heartbeats(self) -> None:
        while every := self.identity.heartbeat:
            await asyncio.sleep(every)
            await self._nsqd.awake.wait()
            self._writer.write(frames.frame(frames.RESPONSE, b"_heartbeat_"))
            self._nsqd.counters["heartbeats"] += 1

    def _leave(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        if self.channel is not None:
            self.channel.leave(self)
            self.channel.hand_out(self._nsqd.now())
        with suppress(ConnectionError):
            self._writer.close()


class _failing:  # noqa: N801 - reads as what it does
    """Turns a message that the client does not hold into the error of its command."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is NotInFlight:
            name, message = self._command.name, self._command.params[0].hex()
            raise Refused(f"E_{name}_FAILED", f"{name} {message} failed ID not in flight", closes=False) from None


def _id(command: Command) -> int:
    if not command.params or len(command.params[0]) != frames.ID_LENGTH:
        raise invalid(f"{command.name} insufficient number of params")
    return int.from_bytes(command.params[0][:8], "big")


def _number(command: Command, index: int, complaint: str) -> int:
    try:
        return int(command.params[index])
    except ValueError:
        raise invalid(f"{complaint} {command.text(index)}") from None


_COMMANDS: Final[dict[str, Callable[[Session, Command], Awaitable[bytes | None]]]] = {
    "IDENTIFY": Session._identify,
    "RDY": Session._set_ready,
    "FIN": Session._finish,
    "REQ": Session._requeue,
    "TOUCH": Session._touch,
    "CLS": Session._start_close,
    "NOP": Session._nothing,
}
