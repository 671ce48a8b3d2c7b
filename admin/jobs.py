"""Bulk resends: jobs with a frozen selection and an outcome per message, which go on after a restart.

``selected = delivered + failed + skipped + missing`` once a job is done. An item is ``failed`` when its first
attempt failed; the subscription's retry policy goes on with it, and its trace says how.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.selection import Selection
from bus.errors import NotFound
from bus.ports.store import DocumentStore

JOBS: Final = "resends"
ITEMS: Final = "resend-items"


class Counts(msgspec.Struct):
    """How many items ended how; ``waiting`` ones have not been attempted yet."""

    selected: int = 0
    waiting: int = 0
    delivered: int = 0
    failed: int = 0
    skipped: int = 0
    missing: int = 0


class Job(msgspec.Struct):
    """One bulk resend; times in milliseconds since the epoch.

    ``chunks`` were selected, ``sent`` of them were resent; ``cursor`` continues the selection.
    """

    id: str
    selection: Selection
    rate: float | None
    reason: str
    by: str
    created_at: int
    state: str = "selecting"
    cursor: str | None = None
    chunks: int = 0
    sent: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)

    @property
    def is_done(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ("done", "canceled")


class Item(msgspec.Struct):
    """One delivery of a job."""

    message_id: str
    subscription: str
    generation: int
    outcome: str = "waiting"
    reason: str = ""


_items_decoder: Final = msgspec.json.Decoder(list[Item])


class JobBook:
    """Jobs and their items, as documents: items in chunks, since a document costs a commit."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def jobs(self) -> list[Job]:
        """Return all jobs, the newest last."""
        return [msgspec.json.decode(found.value, type=Job) for found in await self._documents.list(JOBS)]

    async def job(self, job_id: str) -> Job:
        """Return a job; raises ``NotFound``."""
        found = await self._documents.get(JOBS, job_id)
        if found is None:
            raise no_job(job_id)
        return msgspec.json.decode(found.value, type=Job)

    async def save(self, job: Job) -> None:
        """Write a job; durable when it returns."""
        await self._documents.put(JOBS, job.id, msgspec.json.encode(job))

    async def items(self, job_id: str, chunk: int) -> list[Item]:
        """Return a chunk's items, none when there is no such chunk."""
        found = await self._documents.get(ITEMS, _key(job_id, chunk))
        return _items_decoder.decode(found.value) if found is not None else []

    async def save_items(self, job_id: str, chunk: int, items: list[Item]) -> None:
        """Write a chunk; durable when it returns."""
        await self._documents.put(ITEMS, _key(job_id, chunk), msgspec.json.encode(items))


def no_job(job_id: str) -> NotFound:
    """Return the error for a job that is not there."""
    return NotFound(f"there is no resend {job_id[:64]}", hint="GET /api/v1/resends lists them")


def _key(job_id: str, chunk: int) -> str:
    return f"{job_id}/{chunk:08d}"
