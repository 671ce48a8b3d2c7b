"""A digest of the contents of a partition: it follows from the messages alone, in any order of reading."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import FINAL
from bus.domain.tracing.trace import Trace

_HALF: Final = 15  # hexadecimal digits, 60 bits: half of the checksum fits a signed number of 64 bits


class Contents(NamedTuple):
    """Summary of stored messages: the same messages in the same states, with the same bodies, have the same contents.

    Attributes
    ----------
    messages, deliveries
        How many.
    checksum
        30 hexadecimal digits: the XOR over all messages of the first 30 digits of the SHA-256 of ``line_of``.
    """

    messages: int
    deliveries: int
    checksum: str


class Tally:
    """Computes the contents of messages that are added one by one; ``is_finished`` is whether all are finished."""

    def __init__(self) -> None:
        self._messages = 0
        self._deliveries = 0
        self._halves = [0, 0]
        self.is_finished = True

    def add(self, trace: Trace, body: bytes) -> None:
        """Add a message; one that has not arrived, or has an open delivery, is not finished."""
        self._messages += 1
        self._deliveries += len(trace.deliveries)
        digest = hashlib.sha256(line_of(trace, body).encode()).hexdigest()
        self._halves[0] ^= int(digest[:_HALF], 16)
        self._halves[1] ^= int(digest[_HALF : 2 * _HALF], 16)
        finished = all(delivery.status in FINAL for delivery in trace.deliveries.values())
        self.is_finished = self.is_finished and finished and trace.message is not None

    @property
    def contents(self) -> Contents:
        """The contents of all messages that were added."""
        return Contents(self._messages, self._deliveries, "".join(f"{half:0{_HALF}x}" for half in self._halves))


def line_of(trace: Trace, body: bytes) -> str:
    """Return the text that stands for a message: its id, its body, and where each of its deliveries is."""
    deliveries = [
        f"{name}:{each.status}:{each.generation}:{each.attempts_made}:{each.at}:{len(each.attempts)}:{len(each.resends)}"
        for name, each in sorted(trace.deliveries.items())
    ]
    return f"{trace.id}|{len(body)}|{hashlib.sha256(body).hexdigest()}|{','.join(deliveries)}"
