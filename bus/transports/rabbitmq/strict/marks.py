"""Marks: messages that the group itself puts into a queue, and that come out after all earlier messages."""

from __future__ import annotations

from typing import Final, NamedTuple

from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from bus.transports.rabbitmq.codec import headers_of

_HEADER: Final = "pier-mark"
_PERSISTENT: Final = 2


class Mark(NamedTuple):
    """One mark.

    Attributes
    ----------
    name
        A unique name.
    reply_to
        Queue for the reader's answer whether this queue is drained; empty when no answer is wanted.
    """

    name: str
    reply_to: str = ""

    def properties(self) -> Basic.Properties:
        """Return the properties of the message that carries it."""
        return Basic.Properties(delivery_mode=_PERSISTENT, headers={_HEADER: self.name}, reply_to=self.reply_to or None)


def mark_of(delivered: DeliveredMessage) -> Mark | None:
    """Undo ``properties``; None for a message that is no mark."""
    name = headers_of(delivered).get(_HEADER)
    return Mark(name, delivered.header.properties.reply_to or "") if isinstance(name, str) else None
