"""One consumer over the transports of a subscription: the one in use, those it has left, and the fallback."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bus.ports.transport import Consumer, IncomingMessage


class _Token(NamedTuple):
    """The transport by which a message came, and that transport's token for it."""

    end: Consumer
    incoming: IncomingMessage


class MergedConsumer:
    """A consumer over the consumers of several transports, which may be added and dropped while it is used.

    A call of ``receive`` that waits while a transport is added does not cover that transport: call it again.
    """

    def __init__(self) -> None:
        self._ends: dict[str, Consumer] = {}
        self._receiving: dict[str, asyncio.Task[list[IncomingMessage]]] = {}
        self._arrived: deque[IncomingMessage] = deque()

    @property
    def transports(self) -> set[str]:
        """The names of the transports that are consumed."""
        return set(self._ends)

    def add(self, transport: str, end: Consumer) -> None:
        """Consume from one more transport."""
        self._ends[transport] = end

    async def drop(self, transport: str) -> None:
        """Consume from a transport no more; its unfinished messages are delivered again, here or to another process."""
        end = self._ends.pop(transport)
        await self._abandon(transport, end)
        await end.close()

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages of any transport and return at least one, at most ``limit``; cancelling loses none."""
        if len(self._ends) == 1 and not self._receiving and not self._arrived:
            ((_, end),) = self._ends.items()
            return [_tagged(end, item) for item in await end.receive(limit)]
        while not self._arrived:
            self._listen(limit)
            await asyncio.wait(self._receiving.values(), return_when=asyncio.FIRST_COMPLETED)
            self._collect()
        return [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages, each on its own transport."""
        for end, items in _by_end(incoming).items():
            end.ack(items)

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back, each to its own transport."""
        for end, items in _by_end(incoming).items():
            end.release(items)

    async def close(self) -> None:
        """Leave all transports."""
        self.release(list(self._arrived))
        self._arrived.clear()
        for transport in list(self._ends):
            await self.drop(transport)

    def _listen(self, limit: int) -> None:
        for transport, end in self._ends.items():
            if transport not in self._receiving:
                self._receiving[transport] = asyncio.create_task(end.receive(limit))

    def _collect(self) -> None:
        for transport, task in list(self._receiving.items()):
            if task.done():
                del self._receiving[transport]
                end = self._ends[transport]
                self._arrived.extend(_tagged(end, item) for item in task.result())

    async def _abandon(self, transport: str, end: Consumer) -> None:
        """Give back the messages that a transport has handed out or is handing out right now."""
        task = self._receiving.pop(transport, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                end.release(task.result())
        mine = [item for item in self._arrived if _token(item).end is end]
        self._arrived = deque(item for item in self._arrived if _token(item).end is not end)
        self.release(mine)


def _tagged(end: Consumer, item: IncomingMessage) -> IncomingMessage:
    return IncomingMessage(item.message, _Token(end, item), item.suspect, item.receipt)


def _token(incoming: IncomingMessage) -> _Token:
    if not isinstance(incoming.token, _Token):
        raise TypeError("this delivery came by another transport")
    return incoming.token


def _by_end(incoming: Sequence[IncomingMessage]) -> dict[Consumer, list[IncomingMessage]]:
    found: dict[Consumer, list[IncomingMessage]] = {}
    for item in incoming:
        token = _token(item)
        found.setdefault(token.end, []).append(token.incoming)
    return found
