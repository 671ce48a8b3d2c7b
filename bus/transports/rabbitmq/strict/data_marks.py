"""The mark of a group that still has its data: an exchange of a name of its own, on the disks of all nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aio_pika import ExchangeType

from bus.localized_text import LocalizedText, localized
from bus.transports.rabbitmq.errors import QueueMissing
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.names import data_mark_of
from bus.transports.rabbitmq.strict.nodes import Nodes


class DataMarks:
    """Makes such exchanges, and looks for them; nothing is ever published to one.

    Parameters
    ----------
    group
        Its name, for errors.
    within
        Deadline of each call to a node in seconds.
    """

    def __init__(self, group: str, nodes: Nodes, *, within: float) -> None:
        self._group = group
        self._nodes = nodes
        self._within = within

    async def make(self, destination: str) -> str:
        """Make a new one while all nodes are there; return its mark.

        Raises
        ------
        TransportError
            A node does not answer.
        """
        session, *_ = await self._nodes.ask()
        mark = uuid.uuid4().hex
        exchange = data_mark_of(destination, mark)

        def declare(channel: Channel) -> Coroutine[Any, Any, object]:
            kind = ExchangeType.FANOUT.value
            # Definitions that are exported lack internal exchanges, so importing them does not bring the mark back.
            return channel.raw.exchange_declare(exchange=exchange, exchange_type=kind, durable=True, internal=True)

        await self._on_channel(session, localized("marking {name}", name=self._group), declare)
        return mark

    async def has(self, destination: str, mark: str) -> bool:
        """Whether a node has one; that none has it is only reported while all are up and connected to each other.

        Raises
        ------
        TransportError
            A node that may have it does not answer, or is apart from the others.
        """
        return await self._is_on_any(self._nodes.sessions, destination, mark) or await self._is_on_any(
            await self._nodes.ask(), destination, mark
        )

    async def _is_on_any(self, sessions: Sequence[Session], destination: str, mark: str) -> bool:
        for session in sessions:
            if await self._is_on(session, destination, mark):
                return True
        return False

    async def _is_on(self, session: Session, destination: str, mark: str) -> bool:
        def look(channel: Channel) -> Coroutine[Any, Any, object]:
            return channel.raw.exchange_declare(exchange=data_mark_of(destination, mark), passive=True)

        try:
            await self._on_channel(session, localized("looking for the mark of {name}", name=self._group), look)
        except QueueMissing:
            return False
        return True

    async def _on_channel(
        self, session: Session, doing: LocalizedText, work: Callable[[Channel], Coroutine[Any, Any, object]]
    ) -> None:
        channel = await session.channel(within=self._within)
        try:
            await session.call(doing, work(channel), within=self._within)
        finally:
            await channel.close()
