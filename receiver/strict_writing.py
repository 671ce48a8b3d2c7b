"""Messages of strictly ordered destinations are held by a group of brokers before they are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


class StrictWriting:
    """Has what one call accepts written, of each destination in order."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        return self._writing.is_strict(code)

    async def write(self, messages: Sequence[Message]) -> dict[str, BusError]:
        """Have messages written, but for those of other destinations; return by id why one is not held for sure."""
        by_code: dict[str, list[Message]] = {}
        for message in messages:
            if message.expected and self._writing.is_strict(message.destination):
                by_code.setdefault(message.destination, []).append(message)
        refused: dict[str, BusError] = {}
        for code, found in by_code.items():
            refused |= await self._write(code, found)
        return refused

    async def _write(self, code: str, messages: Sequence[Message]) -> dict[str, BusError]:
        try:
            count = await self._writing.send(code, messages)
        except NotLeader as error:
            return {message.id: error for message in messages}
        return {message.id: _unsure(code) for message in messages[count:]}


def _unsure(code: str) -> TransportUnavailable:
    return TransportUnavailable(
        sentence("no group of brokers has confirmed this message to {code}; it is not accepted", code=repr(code)),
        hint=sentence("send it again under the same id: it is delivered once"),
    )
