"""Which days an archive has taken out of the store: who looks for a message of them is told where it is."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.identity import id_time
from bus.domain.times import DAY, day_of, format_time
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import NotFound
from bus.ports.store import DocumentStore
from bus.sentences import sentence

ARCHIVED: Final = "archived"
_SOMEWHERE: Final = "LAKE"


class ArchivedDay(msgspec.Struct, frozen=True):
    """One partition that was dropped because an archive has it.

    Attributes
    ----------
    partition
        Its name, such as ``20260131-30d``.
    lake
        Where the archive is, as whoever had it dropped named it; empty when they did not.
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
        """Return the days that have times of a range (ms, ``before`` exclusive; None for no end), the oldest first."""
        try:
            first = day_of(since) if since is not None else ""
        except OverflowError:  # an id, or a cursor of a person's own, may be of a time past all calendars
            return []
        found = await self._documents.list(ARCHIVED, after=first)
        days = [msgspec.json.decode(each.value, type=ArchivedDay) for each in found]
        return [day for day in days if before is None or _start(day) < before]

    async def absent(self, message_id: str) -> NotFound:
        """Return the error for a message that the store does not have: where it is, when its day was archived."""
        at = id_time(message_id)
        days = [day for day in await self.between(at, at + 1) if _start(day) <= at < _start(day) + DAY]
        return _archived(message_id, days[-1]) if days else missing(message_id)


def missing(message_id: str) -> NotFound:
    """Return the error for a message that is not there."""
    return NotFound(
        sentence("there is no message {id}", id=message_id[:64]),
        hint=sentence("check the id; it may be past its retention"),
    )


def _archived(message_id: str, day: ArchivedDay) -> NotFound:
    return NotFound(
        sentence(
            "message {id} is not in the store: the messages of its day were archived at {time}",
            id=message_id,
            time=format_time(day.at),
        ),
        hint=sentence(
            "read it there with: {command}", command=f"bus pipeline find {message_id} --lake {day.lake or _SOMEWHERE}"
        ),
    )


def _start(day: ArchivedDay) -> int:
    label = PartitionLabel.of_name(day.partition)
    return label.day * DAY if label is not None else 0
