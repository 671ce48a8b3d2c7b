"""Moves records of a queue that are no messages of the bus into the quarantine."""

from __future__ import annotations

import logging

from bus.domain.destination import TransportName
from bus.errors import SpoolError
from bus.ports.quarantine import ForeignRecord, Quarantine
from bus.transports.rabbitmq.channel import ConsumerChannel
from bus.transports.rabbitmq.codec import described

_log = logging.getLogger(__name__)


async def set_aside(consuming: ConsumerChannel, place: str, quarantine: Quarantine) -> None:
    """Put foreign messages into the quarantine, then ack them; those that it does not accept stay in the queue.

    Parameters
    ----------
    place
        The queue, for people.
    """
    while consuming.unreadable:
        delivered, tag, reason = consuming.unreadable[0]
        foreign = ForeignRecord(TransportName.RABBITMQ, place, reason, described(delivered), delivered.body)
        try:
            await quarantine.keep(foreign)
        except SpoolError as error:
            _log.warning("a foreign message stays in %s, since it cannot be set aside: %s", place, error)
            return
        _log.warning("a foreign message of %s was set aside: %s", place, reason)
        consuming.unreadable.pop(0)
        consuming.finish([tag])
