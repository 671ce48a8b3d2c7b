"""The messages that an earlier life of a receiver accepted and that the store may lack: the newest of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from operator import itemgetter
from typing import Final

from bus.domain.message import Message, decode_message
from bus.ports.spool import Spool, decoded

_MOST: Final = 20_000
_MOST_BYTES: Final = 256 << 20
_PAGE: Final = 64


async def newest_unstored(sources: Sequence[tuple[Spool, str]]) -> AsyncIterator[Message]:
    """Yield messages of spools that their consumers have not brought to the store, of each lane the newest first.

    They are ``_MOST`` at most, and about ``_MOST_BYTES``; what a lane leaves of its share, others have.
    """
    waiting = [
        (found.records, spool, consumer, found.lane)
        for spool, consumer in sources
        for found in spool.stats().consumers
        if found.consumer == consumer and found.records
    ]
    records, size = _MOST, _MOST_BYTES
    for number, (_, spool, consumer, lane) in enumerate(sorted(waiting, key=itemgetter(0))):
        left, left_bytes = records // (len(waiting) - number), size // (len(waiting) - number)
        before: int | None = None
        while left > 0 and left_bytes > 0:
            page = await spool.newest(consumer, min(left, _PAGE), lane, before)
            if not page:
                break
            before, read = page[-1].position, sum(len(record.payload) for record in page)
            left, left_bytes = left - len(page), left_bytes - read
            records, size = records - len(page), size - read
            for record in page:
                if (message := decoded(record, decode_message)) is not None:
                    yield message
