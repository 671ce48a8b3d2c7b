"""What a partition has, in a few numbers that anybody who has its messages comes to, in whatever order they are."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import FINAL
from bus.domain.tracing.trace import Trace

_LANE: Final = 15  # hexadecimal digits, 60 bits: a number that also fits a signed one of 64 bits


class Contents(NamedTuple):
    """Whoever holds the same messages in the same states, with the same bodies, has the same contents.

    Attributes
    ----------
    messages, deliveries
        How many.
    checksum
        30 hexadecimal digits: the XOR over messages of the first of the SHA-256 of each one's ``line_of``.
    """

    messages: int
    deliveries: int
    checksum: str


class Tally:
    """Adds messages up to contents."""

    def __init__(self) -> None:
        self._messages = 0
        self._deliveries = 0
        self._lanes = [0, 0]
        self.is_finished = True

    def add(self, trace: Trace, body: bytes) -> None:
        """Add a message; one that has not arrived, or has an open delivery, is not finished."""
        self._messages += 1
        self._deliveries += len(trace.deliveries)
        digest = hashlib.sha256(line_of(trace, body).encode()).hexdigest()
        self._lanes[0] ^= int(digest[:_LANE], 16)
        self._lanes[1] ^= int(digest[_LANE : 2 * _LANE], 16)
        finished = all(delivery.status in FINAL for delivery in trace.deliveries.values())
        self.is_finished = self.is_finished and finished and trace.message is not None

    @property
    def contents(self) -> Contents:
        """All that was added."""
        return Contents(self._messages, self._deliveries, "".join(f"{lane:0{_LANE}x}" for lane in self._lanes))


def line_of(trace: Trace, body: bytes) -> str:
    """Return the text that stands for a message: its id, its body, and where each of its deliveries is."""
    deliveries = [
        f"{name}:{each.status}:{each.generation}:{each.attempts_made}:{each.at}:{len(each.attempts)}:{len(each.resends)}"
        for name, each in sorted(trace.deliveries.items())
    ]
    return f"{trace.id}|{len(body)}|{hashlib.sha256(body).hexdigest()}|{','.join(deliveries)}"
