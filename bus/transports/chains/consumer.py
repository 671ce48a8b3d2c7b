"""One subscription's end of a chain: reads one group after the other, in the order in which they were written to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from bus.domain.message import Message
from bus.domain.ordering.chain import Segment
from bus.domain.ordering.reader import ChainReader, Verdict
from bus.ports.broker_group import BrokerGroup, GroupReader
from bus.ports.clock import Clock
from bus.ports.transport import IncomingMessage
from bus.transports.chains.driver import ChainDriver

_IDLE: Final = 0.5
_LOOK: Final = 0.2
SendAgain = Callable[[Message], Awaitable[bool]]


class _Token(NamedTuple):
    """The reader by which a message came, and that reader's token for it."""

    reader: GroupReader
    incoming: IncomingMessage


class ChainConsumer:
    """Gives messages in the order of the chain, and has those that come too late sent again behind all others.

    Parameters
    ----------
    is_suspect
        Whether a message may have been delivered by the process that read before.
    send_again
        Has a message that comes too late written anew, unless it was delivered; False to try later.
    """

    def __init__(
        self,
        subscription: str,
        rules: ChainReader,
        driver: ChainDriver,
        groups: Callable[[str], BrokerGroup | None],
        code: str,
        clock: Clock,
        is_suspect: Callable[[Message], bool],
        send_again: SendAgain,
    ) -> None:
        self._subscription = subscription
        self._rules = rules
        self._driver = driver
        self._group = groups
        self._code = code
        self._clock = clock
        self._is_suspect = is_suspect
        self._send_again = send_again
        self._reader: GroupReader | None = None
        self._segment: Segment | None = None
        self._read_ahead: deque[IncomingMessage] = deque()
        self._unacked: set[object] = set()
        self._closing: list[GroupReader] = []
        self._over = asyncio.Event()

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for the next messages; cancelling loses none."""
        while True:
            reader = await self._next_reader()
            if reader is None:
                await self._clock.sleep(_LOOK)
                continue
            if not self._read_ahead:
                await self._read(reader, limit)
            if found := await self._judged(reader, limit):
                return found

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages, each on the group that it came from."""
        for reader, items in _by_reader(incoming).items():
            reader.ack(items)
            self._unacked -= {item.token for item in items}

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back; they come again, in order."""
        for reader, items in _by_reader(incoming).items():
            if reader is self._reader and self._segment is not None:
                self._read_ahead.extendleft(reversed(items))
            self._unacked -= {item.token for item in items}

    async def close(self) -> None:
        """Leave the group that is read, permanently."""
        self._over.set()
        await self._leave()

    async def _next_reader(self) -> GroupReader | None:
        """Return a reader of the segment to read; None while there is none."""
        if self._over.is_set():
            return None
        segment = await self._driver.perform(self._rules.next_for(self._subscription))
        if segment is not None and self._segment is not None and _is_same(segment, self._segment):
            self._segment = segment
            return self._reader
        if self._unacked:
            return None  # of the segment before, which no other process reads while they are under way here
        await self._leave()
        group = self._group(segment.group) if segment is not None else None
        if segment is None or group is None:
            return None
        reader = await group.reader(self._code, self._subscription)
        self._reader = self._driver.readers[segment.group, self._subscription] = reader
        self._segment = segment
        if self._over.is_set():
            await self._leave()
        return self._reader

    async def _read(self, reader: GroupReader, limit: int) -> None:
        """Read ahead; leave the segment when nothing comes and nothing can come any more."""
        try:
            async with asyncio.timeout(_IDLE):
                self._read_ahead.extend(await reader.receive(limit))
        except TimeoutError:
            if self._segment is not None and not self._unacked and not self._read_ahead:
                await self._driver.perform(self._rules.leave(self._subscription, self._segment))

    async def _judged(self, reader: GroupReader, limit: int) -> list[IncomingMessage]:
        """Return the messages read ahead that may be handed out now."""
        given: list[IncomingMessage] = []
        while len(given) < min(limit, len(self._read_ahead)) and self._segment is not None:
            item = self._read_ahead[len(given)]
            epoch = item.message.epoch
            verdict = await self._driver.perform(self._rules.judge(self._subscription, self._segment, epoch))
            if self._reader is not reader:
                return []  # closed meanwhile
            if verdict is Verdict.GIVE:
                suspect = item.suspect or self._is_suspect(item.message)
                given.append(IncomingMessage(item.message, _Token(reader, item), suspect))
            elif verdict is Verdict.LATE and await self._send_again(item.message):
                reader.ack([item])
                if self._reader is not reader:
                    return []
                del self._read_ahead[len(given)]
            else:
                break
        if not given and self._read_ahead:
            await self._clock.sleep(_LOOK)
        # Nothing is awaited from here on, so that who is cancelled before has lost none.
        self._unacked |= {self._read_ahead.popleft().token for _ in given}
        return given

    async def _leave(self) -> None:
        """Close the reader, and any whose closing was cut off: no other process reads while one is open."""
        reader, segment = self._reader, self._segment
        self._reader = self._segment = None
        self._read_ahead.clear()
        self._unacked.clear()
        if reader is not None and segment is not None:
            key = (segment.group, self._subscription)
            if self._driver.readers.get(key) is reader:  # else it is already that of the role's next holder
                del self._driver.readers[key]
            self._closing.append(reader)
        while self._closing:
            last = self._closing[-1]
            await last.close()
            self._closing = [one for one in self._closing if one is not last]


def _is_same(one: Segment, other: Segment) -> bool:
    return (one.group, one.epoch) == (other.group, other.epoch)


def _by_reader(incoming: Sequence[IncomingMessage]) -> dict[GroupReader, list[IncomingMessage]]:
    found: dict[GroupReader, list[IncomingMessage]] = {}
    for item in incoming:
        if not isinstance(item.token, _Token):
            raise TypeError("this delivery came by another transport")
        found.setdefault(item.token.reader, []).append(item.token.incoming)
    return found
