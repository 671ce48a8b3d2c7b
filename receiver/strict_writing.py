"""Messages of strictly ordered destinations are held by a group of brokers before they are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bus.domain.message import Message
from bus.errors import BusError, NotLeader, TransportUnavailable
from bus.localized_text import localized


class StrictSenders(Protocol):
    """The writer of messages of strictly ordered destinations (`bus.transports.chains.chains.Chains`)."""

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        ...

    async def send(self, code: str, messages: Sequence[Message], producer: int = 0) -> Sequence[int]:
        """Write messages in order; return the epochs of those that are held for sure, or raise ``NotLeader``."""
        ...


class ProducedMessage(NamedTuple):
    """A message, and the epoch of the producer that sends alone to its destination; 0 for a plain one."""

    message: Message
    producer: int = 0


class WriteResult(NamedTuple):
    """The result of a write, by message id: the epoch of each that is held for sure, and why another one is not."""

    epochs: dict[str, int]
    refused: dict[str, BusError]


class StrictWriting:
    """Has what one call accepts written, of each destination and producer in order."""

    def __init__(self, writing: StrictSenders) -> None:
        self._writing = writing

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        return self._writing.is_strict(code)

    async def write(self, produced: Sequence[ProducedMessage]) -> WriteResult:
        """Have messages written, but for those of other destinations, of which nothing is said."""
        groups: dict[tuple[str, int], list[Message]] = {}
        for message, producer in produced:
            if message.expected and self._writing.is_strict(message.destination):
                groups.setdefault((message.destination, producer), []).append(message)
        written = WriteResult({}, {})
        for (code, producer), messages in groups.items():
            await self._write(code, messages, producer, written)
        return written

    async def _write(self, code: str, messages: Sequence[Message], producer: int, written: WriteResult) -> None:
        try:
            epochs = await self._writing.send(code, messages, producer)
        except NotLeader as error:
            written.refused.update((message.id, error) for message in messages)
            return
        written.epochs.update((message.id, epoch) for message, epoch in zip(messages, epochs, strict=False))
        written.refused.update((message.id, _unsure(code)) for message in messages[len(epochs) :])


def _unsure(code: str) -> TransportUnavailable:
    return TransportUnavailable(
        localized("no group of brokers has confirmed this message to {code}; it is not accepted", code=repr(code)),
        hint=localized("send it again under the same id: it is delivered once"),
    )
