"""A job's items in pages, and as one download."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from admin.repair.jobs import Item, Job, JobRepository

CONTENT_TYPES: Final = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
_COLUMNS: Final = Item.__struct_fields__
_CHUNKS_A_PAGE: Final = 200
# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class ItemReader:
    """Reads one job's items, all or those with one outcome, in the order in which they were selected."""

    def __init__(self, repository: JobRepository, job: Job, outcome: str | None) -> None:
        self._repository = repository
        self._job = job
        self._outcome = outcome

    async def page(self, cursor: str, limit: int) -> tuple[list[Item], str | None]:
        """Return a page and the cursor of the next one: ``chunk``, or ``chunk.place`` inside a chunk.

        A page looks at a bounded number of items: where few are wanted it may hold less than ``limit``, or nothing.
        """
        chunk, _, place = cursor.partition(".")
        at, skip, found = int(chunk), int(place or 0), list[Item]()
        for number in range(at, min(at + _CHUNKS_A_PAGE, self._job.chunks)):
            items = await self._repository.items(self._job.id, number)
            for index in range(skip if number == at else 0, len(items)):
                if self._is_wanted(items[index]):
                    if len(found) == limit:
                        return found, f"{number}.{index}"
                    found.append(items[index])
        following = at + _CHUNKS_A_PAGE
        return found, str(following) if following < self._job.chunks else None

    async def exported(self, kind: str) -> AsyncIterator[bytes]:
        """Yield the whole file, a chunk at a time."""
        if kind == "csv":
            yield _csv([_COLUMNS])
        for number in range(self._job.chunks):
            items = [item for item in await self._repository.items(self._job.id, number) if self._is_wanted(item)]
            if kind == "csv":
                yield _csv([[_defused(str(getattr(item, name))) for name in _COLUMNS] for item in items])
            else:
                yield b"".join(msgspec.json.encode(item) + b"\n" for item in items)

    def _is_wanted(self, item: Item) -> bool:
        return self._outcome in (None, item.outcome)


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _defused(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
