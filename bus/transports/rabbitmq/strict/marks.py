"""Marks: what is put into a queue by the group itself, to see it come out behind everything that was there before."""

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
        Tells it from all others.
    reply_to
        Where whoever reads it tells whether its queue is drained; empty when nobody waits for that.
    """

    name: str
    reply_to: str = ""

    def properties(self) -> Basic.Properties:
        """Return what it travels as."""
        return Basic.Properties(delivery_mode=_PERSISTENT, headers={_HEADER: self.name}, reply_to=self.reply_to or None)


def mark_of(delivered: DeliveredMessage) -> Mark | None:
    """Undo ``properties``; None for what is no mark."""
    name = headers_of(delivered).get(_HEADER)
    return Mark(name, delivered.header.properties.reply_to or "") if isinstance(name, str) else None
