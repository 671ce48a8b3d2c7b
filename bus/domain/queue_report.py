"""The header ``bus-queue``, in which a producer reports its queue with each request."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

HEADER: Final = "bus-queue"
SOURCE: Final = "bus-source"
"""The additional header with the source of a queue whose messages have several."""
_LONGEST: Final = 100
_TEXT: Final = re.compile(rb"records=([0-9]{1,15}), oldest_ms=([0-9]{1,15}), id=([0-9a-f]{8})")


class QueueReport(NamedTuple):
    """A producer's local queue.

    Attributes
    ----------
    records
        Messages that wait, those that come with the request included.
    oldest
        For how long (ms) the first of them has waited, by the producer's clock.
    id
        Distinguishes queues of one source.
    source
        Source of the queue, where it has one; else that of its messages.
    """

    records: int
    oldest: int
    id: str
    source: str = ""

    @property
    def text(self) -> str:
        """The header's value."""
        return f"records={self.records}, oldest_ms={max(0, self.oldest)}, id={self.id}"


def parse_queue_report(text: bytes) -> QueueReport | None:
    """Return the report in a header's value; None for one that no producer of the bus writes."""
    found = _TEXT.fullmatch(text) if len(text) <= _LONGEST else None
    return QueueReport(int(found[1]), int(found[2]), found[3].decode()) if found is not None else None
