"""Messages of strictly ordered destinations are held by a group of brokers before they are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bus.domain.message import Message
from bus.errors import BusError, NotLeader, TransportUnavailable
from bus.sentences import sentence


class Writing(Protocol):
    """Who writes them (`bus.transports.chains.chains.Chains`)."""

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        ...

    async def send(self, code: str, messages: Sequence[Message], producer: int = 0) -> int:
        """Write messages in order; return how many are held for sure, or raise ``NotLeader``."""
        ...


class Produced(NamedTuple):
    """A message, and the epoch of the producer that sends alone to its destination; 0 for a plain one."""

    message: Message
    producer: int = 0


class StrictWriting:
    """Has what one call accepts written, of each destination and producer in order."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        return self._writing.is_strict(code)

    async def write(self, produced: Sequence[Produced]) -> dict[str, BusError]:
        """Have messages written, but for those of other destinations; return by id why one is not held for sure."""
        groups: dict[tuple[str, int], list[Message]] = {}
        for message, producer in produced:
            if message.expected and self._writing.is_strict(message.destination):
                groups.setdefault((message.destination, producer), []).append(message)
        refused: dict[str, BusError] = {}
        for (code, producer), messages in groups.items():
            refused |= await self._write(code, messages, producer)
        return refused

    async def _write(self, code: str, messages: Sequence[Message], producer: int) -> dict[str, BusError]:
        try:
            count = await self._writing.send(code, messages, producer)
        except NotLeader as error:
            return {message.id: error for message in messages}
        return {message.id: _unsure(code) for message in messages[count:]}


def _unsure(code: str) -> TransportUnavailable:
    return TransportUnavailable(
        sentence("no group of brokers has confirmed this message to {code}; it is not accepted", code=repr(code)),
        hint=sentence("send it again under the same id: it is delivered once"),
    )
