"""Bulk resends and discards: jobs with a frozen selection and an outcome per delivery, which continue after a restart.

``selected = delivered + discarded + failed + skipped + missing + canceled + waiting`` at any time, and of a job that is
done none waits or is canceled. An item is ``failed`` when its first attempt failed; the subscription's retry policy
continues with it, and its trace has the later attempts.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Collection
from typing import Final

import msgspec

from bus.domain.identity import id_time
from bus.domain.searching.selection import Selection
from bus.errors import Conflict, NotFound
from bus.localized_text import localized
from bus.ports.store import DocumentWrite, Store

JOBS: Final = "resends"
ITEMS: Final = "resend-items"
ORDERS: Final = "resend-orders"
_DROPPED_AT_ONCE: Final = 500


class Kind(enum.StrEnum):
    """The action of a job on its deliveries."""

    RESEND = "resend"
    DISCARD = "discard"


class Counts(msgspec.Struct):
    """The numbers of items by their outcomes.

    ``waiting`` ones have not been attempted yet, ``canceled`` ones were left as they are when their job was canceled.
    """

    selected: int = 0
    waiting: int = 0
    delivered: int = 0
    discarded: int = 0
    failed: int = 0
    skipped: int = 0
    missing: int = 0
    canceled: int = 0

    @property
    def is_balanced(self) -> bool:
        """Whether every item that was selected is counted once."""
        ended = self.delivered + self.discarded + self.failed + self.skipped + self.missing
        return self.selected == ended + self.canceled + self.waiting

    def move(self, old: str, new: str) -> None:
        """Move an item from the count of one outcome to that of another."""
        setattr(self, old, getattr(self, old) - 1)
        setattr(self, new, getattr(self, new) + 1)

    def add(self, outcome: str) -> None:
        """Count an item that was selected."""
        self.selected += 1
        setattr(self, outcome, getattr(self, outcome) + 1)


class Job(msgspec.Struct):
    """One job; times in milliseconds since the epoch, 0 while not known.

    Attributes
    ----------
    state
        ``selecting``, ``sending``, ``waiting`` (for the last outcomes), ``done`` or ``canceled``.
    cursor
        Continues the selection.
    chunks, sent
        How many chunks of items were selected, and of how many of these all items were resent, or discarded. A resend
        of one message is stored as ``waiting`` with ``sent`` 0, and is applied again when another process continues it.
    started_at
        When the selection was complete, and the work began.
    rerun_of, outcomes, rerun_chunks
        The job whose items with these outcomes this one resends again, and how many chunks it has; empty for a job
        with a selection of its own.
    reruns
        The jobs that resend items of this one again.
    is_oldest_first
        Whether the work begins with the last chunk: a selection begins with the newest messages, by their ids.
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
    started_at: int = 0
    finished_at: int = 0
    rerun_of: str = ""
    outcomes: tuple[str, ...] = ()
    rerun_chunks: int = 0
    reruns: tuple[str, ...] = ()
    kind: Kind = Kind.RESEND
    is_oldest_first: bool = False

    def chunk_at(self, place: int) -> int:
        """Return the chunk that is worked on after so many others, once all are selected."""
        return self.chunks - 1 - place if self.is_oldest_first else place

    @property
    def is_done(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ("done", "canceled")


class Orders(msgspec.Struct, frozen=True):
    """Orders of people to a job since it began.

    A document of its own, since only requests write orders, and only the runner writes the job. ``rate`` is in force if
    ``has_rate``.
    """

    paused: bool = False
    canceled: bool = False
    rate: float | None = None
    has_rate: bool = False

    def state(self, job: Job) -> str:
        """Return the state to show: an order counts at once, before the runner has carried it out."""
        if job.is_done:
            return job.state
        if self.canceled:
            return "canceled"
        return "paused" if self.paused and job.state != "waiting" else job.state

    def rate_of(self, job: Job) -> float | None:
        """Return the rate in force."""
        return self.rate if self.has_rate else job.rate

    def seconds_left(self, job: Job, now: int) -> float | None:
        """Return about how long a job still takes, by its rate or its speed so far; None where that is unknown.

        It is not while a job selects or is paused, nor before its first item has ended.
        """
        if self.state(job) != "sending":
            return None
        counts, rate = job.counts, self.rate_of(job)
        ended, spent = counts.selected - counts.waiting, (now - job.started_at) / 1000
        speed = ended / spent if ended and spent > 0 else 0.0
        speed = min(speed, rate) if speed and rate else rate or speed
        return counts.waiting / speed if speed else None


class Item(msgspec.Struct):
    """One delivery of a job."""

    message_id: str
    subscription: str
    generation: int
    outcome: str = "waiting"
    reason: str = ""


_items_decoder: Final = msgspec.json.Decoder(list[Item])


class JobRepository:
    """Jobs, their orders and their items, as documents; items in chunks, since each document costs a commit."""

    def __init__(self, documents: Store) -> None:
        self._documents = documents

    async def all(self) -> list[Job]:
        """Return all jobs, the newest last."""
        return [msgspec.json.decode(found.value, type=Job) for found in await self._documents.list(JOBS)]

    async def get(self, job_id: str) -> Job:
        """Return a job; raises ``NotFound``."""
        found = await self._documents.get(JOBS, job_id)
        if found is None:
            raise no_job(job_id)
        return msgspec.json.decode(found.value, type=Job)

    async def save(self, job: Job) -> None:
        """Write a job; durable when it returns."""
        await self._documents.put(*job_document(job))

    async def orders(self, job_id: str) -> Orders:
        """Return the orders to a job."""
        found = await self._documents.get(ORDERS, job_id)
        return msgspec.json.decode(found.value, type=Orders) if found is not None else Orders()

    async def all_orders(self) -> dict[str, Orders]:
        """Return the orders of each job that has any."""
        return {
            found.key: msgspec.json.decode(found.value, type=Orders) for found in await self._documents.list(ORDERS)
        }

    async def order(self, job_id: str, **changes: bool | float | None) -> Orders:
        """Change the orders of a job; durable when it returns, and not lost to a request at the same time."""
        while True:
            found = await self._documents.get(ORDERS, job_id)
            known = msgspec.json.decode(found.value, type=Orders) if found is not None else Orders()
            wanted = msgspec.structs.replace(known, **changes)
            try:
                version = found.version if found is not None else 0
                await self._documents.put(ORDERS, job_id, msgspec.json.encode(wanted), version=version)
            except Conflict:
                continue
            return wanted

    async def items(self, job_id: str, chunk: int) -> list[Item]:
        """Return a chunk's items, none when there is no such chunk."""
        found = await self._documents.get(ITEMS, _key(job_id, chunk))
        return _items_decoder.decode(found.value) if found is not None else []

    async def save_items(self, job_id: str, chunk: int, items: list[Item]) -> None:
        """Write a chunk; durable when it returns."""
        await self._documents.put(*chunk_document(job_id, chunk, items))

    async def note(self, job: Job, chunk: int, items: list[Item]) -> None:
        """Write a job with a chunk whose outcomes are in the traces, where they are read again if this is lost."""
        await self._documents.note([chunk_document(job.id, chunk, items), job_document(job)])

    async def orphans(self, before: int, known: Collection[str]) -> set[str]:
        """Return the ids in the oldest chunks of items whose job was created before a time (ms) but never written."""
        found = await self._documents.list(ITEMS, limit=_DROPPED_AT_ONCE)
        owners = {document.key.partition("/")[0] for document in found}
        return {owner for owner in owners if owner not in known and id_time(owner) < before}

    async def drop(self, job_id: str) -> None:
        """Delete a job's items and orders, then the job, so that an interrupted deletion can be repeated."""
        while documents := await self._documents.list(ITEMS, prefix=f"{job_id}/", limit=_DROPPED_AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for document in documents:
                    group.create_task(self._documents.delete(ITEMS, document.key))
        await self._documents.delete(ORDERS, job_id)
        await self._documents.delete(JOBS, job_id)


def job_document(job: Job) -> DocumentWrite:
    """Return the document that a job is stored as."""
    return DocumentWrite(JOBS, job.id, msgspec.json.encode(job))


def chunk_document(job_id: str, chunk: int, items: list[Item]) -> DocumentWrite:
    """Return the document that a chunk of items is stored as."""
    return DocumentWrite(ITEMS, _key(job_id, chunk), msgspec.json.encode(items))


def no_job(job_id: str) -> NotFound:
    """Return the error for a job that is not there."""
    return NotFound(
        localized("there is no resend {id}", id=job_id[:64]),
        hint=localized("{command} lists them", command="GET /api/v1/resends"),
    )


def _key(job_id: str, chunk: int) -> str:
    return f"{job_id}/{chunk:08d}"
