"""The receipt of a message from NSQ, for the message's trace."""

from __future__ import annotations

from typing import Final

from bus.domain.delivery.receipt import Receipt
from bus.transports.nsq.buffer import InFlightMessage
from bus.transports.nsq.protocol.frames import name_of, numbers_of, read_message

_NS_IN_MS: Final = 1_000_000


def receipt_of(held: InFlightMessage) -> Receipt:
    """Return the nsqd and the partition that a message came from, and the fields of its frame."""
    published, _, message_id = read_message(held.payload)
    server, at = str(held.source.address), published // _NS_IN_MS
    if held.source.partition is None:
        return Receipt(server, name_of(message_id), at, held.attempts)
    internal, trace = numbers_of(message_id)
    offset, size = held.source.form.place_of(held.payload, held.body_at) or (None, None)
    trace_id = str(trace) if trace else ""
    return Receipt(server, str(internal), at, held.attempts, held.source.partition, trace_id, offset, size)
