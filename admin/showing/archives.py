"""The partitions that were archived and dropped: searches for their messages name the archive."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.identity import id_time
from bus.domain.times import DAY, day_of, format_time
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import NotFound
from bus.localized_text import localized
from bus.ports.store import DocumentStore

ARCHIVED: Final = "archived"
_SOMEWHERE: Final = "LAKE"


class ArchivedDay(msgspec.Struct, frozen=True):
    """One partition that was dropped because an archive has it.

    Attributes
    ----------
    partition
        Its name, such as ``20260131-30d``.
    lake
        Where the archive is, as named in the request to drop the partition; empty if it was not.
    messages
        How many it had.
    at
        When it was dropped (ms).
    """

    partition: str
    lake: str
    messages: int
    at: int


class Archives:
    """The days that were archived and dropped, as documents by their partition's name."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def note(self, day: ArchivedDay) -> None:
        """Remember that a partition was dropped; durable when it returns."""
        await self._documents.put(ARCHIVED, day.partition, msgspec.json.encode(day))

    async def between(self, since: int | None, before: int | None) -> list[ArchivedDay]:
        """Return the archived days of a range of times (ms, ``before`` exclusive; None for no end), oldest first."""
        try:
            first = day_of(since) if since is not None else ""
        except OverflowError:  # a made-up id or cursor may have a time past the year 9999
            return []
        found = await self._documents.list(ARCHIVED, after=first)
        days = [msgspec.json.decode(each.value, type=ArchivedDay) for each in found]
        return [day for day in days if before is None or _start(day) < before]

    async def absent(self, message_id: str) -> NotFound:
        """Return the error for a message that the store does not have; it names the archive if its day was archived."""
        at = id_time(message_id)
        days = [day for day in await self.between(at, at + 1) if _start(day) <= at < _start(day) + DAY]
        return _archived(message_id, days[-1]) if days else missing(message_id)


def missing(message_id: str) -> NotFound:
    """Return the error for a message that is not there."""
    return NotFound(
        localized("there is no message {id}", id=message_id[:64]),
        hint=localized("check the id; it may be past its retention"),
    )


def _archived(message_id: str, day: ArchivedDay) -> NotFound:
    return NotFound(
        localized(
            "message {id} is not in the store: the messages of its day were archived at {time}",
            id=message_id,
            time=format_time(day.at),
        ),
        hint=localized(
            "read it there with: {command}", command=f"bus pipeline find {message_id} --lake {day.lake or _SOMEWHERE}"
        ),
    )


def _start(day: ArchivedDay) -> int:
    label = PartitionLabel.of_name(day.partition)
    return label.day * DAY if label is not None else 0
