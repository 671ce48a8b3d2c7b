"""Works through resends, side by side, and goes on where a restart interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from admin.jobs import Counts, Item, Job, JobBook
from admin.resender import Resender, Target, is_pending, target_of
from bus.domain.delivery import Status
from bus.domain.identity import new_id
from bus.domain.rate import TokenBucket
from bus.domain.selection import Selection
from bus.domain.trace import Trace, is_chosen
from bus.errors import NotFound, StoreError
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.registry import Registry

_log = logging.getLogger(__name__)
_PAGE: Final = 100
_SAMPLE: Final = 10
_POLL: Final = 0.1
_AFTER_FAILURE: Final = 1.0
_LONGEST_SLEEP: Final = 0.5
_OUTCOMES: Final = {Status.DELIVERED: "delivered", Status.SKIPPED: "skipped"}


class ResendRunner:
    """Selects, resends, and watches until each item of a job has an outcome."""

    def __init__(self, store: Store, registry: Registry, resender: Resender, book: JobBook, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._resender = resender
        self._book = book
        self._clock = clock
        self._wake = asyncio.Event()
        self._canceled: set[str] = set()
        self._working: set[str] = set()

    async def submit(self, job: Job) -> None:
        """Take a job; durable when it returns."""
        await self._book.save(job)
        self._wake.set()

    async def resend_one(self, trace: Trace, subscriptions: Sequence[str] | None, by: str) -> tuple[Job, list[Target]]:
        """Resend deliveries of one message; durable when it returns, and watched as a job.

        Raises as ``Resender.choose`` and ``Resender.apply`` do.
        """
        targets = self._resender.choose(trace, subscriptions)
        now = self._clock.now()
        selection = Selection(destination=trace.destination, text=trace.id)
        job = Job(new_id(now), selection, None, f"resent by {by}", by, now, "waiting")
        job.chunks = job.sent = 1
        job.counts = Counts(selected=len(targets), waiting=len(targets))
        items = [Item(trace.id, *target) for target in targets]
        await self._book.save_items(job.id, 0, items)
        await self._resender.apply(trace.id, targets, job.reason)
        await self.submit(job)
        return job, targets

    async def cancel(self, job: Job) -> Job:
        """Resend nothing more of a job, also after a restart; what was resent stays resent."""
        if not job.is_done:
            self._canceled.add(job.id)
            await self._save(job)
        return job

    async def preview(self, selection: Selection) -> tuple[int, list[Trace]]:
        """Return how many deliveries a selection takes now, and the first messages of it."""
        count, cursor, sample = 0, None, list[Trace]()
        while True:
            page = await self._store.search(selection, cursor=cursor, limit=_PAGE)
            count += sum(len(self._names(trace, selection)) for trace in page.traces)
            sample += page.traces[: _SAMPLE - len(sample)]
            cursor = page.next
            if cursor is None:
                return count, sample

    async def run(self) -> None:
        """Work until cancelled; the store may be away for any time."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                try:
                    jobs = await self._book.jobs()
                except StoreError as error:
                    _log.warning("resends wait for the store: %s", error)
                    await self._clock.sleep(_AFTER_FAILURE)
                    continue
                for job in jobs:
                    if not job.is_done and job.id not in self._working:
                        self._working.add(job.id)
                        group.create_task(self._work(job))
                await self._wake.wait()

    async def _work(self, job: Job) -> None:
        while True:
            try:
                await self._finish(job)
            except StoreError as error:
                _log.warning("resend %s waits for the store: %s", job.id, error)
                await self._clock.sleep(_AFTER_FAILURE)
            else:
                self._working.discard(job.id)
                return

    async def _finish(self, job: Job) -> None:
        bucket = TokenBucket(job.rate)
        # A crash may have fallen between a chunk and its job, so the counts are taken from the chunks.
        job.counts = await self._count(job)
        open_chunks: deque[int] = deque()
        while not job.is_done:
            if job.id in self._canceled:
                await self._save(job)
            elif job.state == "selecting":
                await self._select(job)
            elif job.sent < job.chunks:
                await self._send(job, bucket)
            elif job.state == "sending":
                job.state = "waiting"
                await self._save(job)
            else:
                open_chunks = open_chunks or deque(range(job.chunks))
                await self._settle(job, open_chunks)

    async def _save(self, job: Job) -> None:
        """Write a job; one that was cancelled meanwhile as such."""
        if job.id in self._canceled:
            job.state = "canceled"
        await self._book.save(job)

    async def _select(self, job: Job) -> None:
        """Freeze one page of the selection as a chunk."""
        page = await self._store.search(job.selection, cursor=job.cursor, limit=_PAGE)
        items = [item for trace in page.traces for item in self._items(trace, job.selection)]
        if items:
            await self._book.save_items(job.id, job.chunks, items)
            job.chunks += 1
            job.counts.selected += len(items)
            job.counts.waiting += sum(item.outcome == "waiting" for item in items)
            job.counts.skipped += sum(item.outcome == "skipped" for item in items)
        job.cursor = page.next
        if page.next is None:
            job.state = "sending"
        await self._save(job)

    async def _send(self, job: Job, bucket: TokenBucket) -> None:
        """Resend one chunk; repeated after a crash it changes nothing, since the generations are frozen."""
        items = await self._book.items(job.id, job.sent)
        waiting = [item for item in items if item.outcome == "waiting"]
        while waiting and job.id not in self._canceled:
            now = self._clock.monotonic()
            count = bucket.available(now, len(waiting))
            if not count:
                await self._clock.sleep(min(bucket.wait(now), _LONGEST_SLEEP))
                continue
            bucket.take(count)
            await self._resend(job, waiting[:count])
            waiting = waiting[count:]
        await self._book.save_items(job.id, job.sent, items)
        job.sent += 1
        await self._save(job)

    async def _resend(self, job: Job, items: Sequence[Item]) -> None:
        """Resend items at once, so that they share the store's commits."""
        results = await asyncio.gather(*(self._apply(job, item) for item in items), return_exceptions=True)
        for item, result in zip(items, results, strict=True):
            if isinstance(result, NotFound):
                item.outcome, item.reason = "missing", str(result)
                job.counts.waiting -= 1
                job.counts.missing += 1
            elif result is not None:
                raise result

    async def _apply(self, job: Job, item: Item) -> None:
        target = Target(item.subscription, item.generation)
        await self._resender.apply(item.message_id, [target], job.reason)

    async def _settle(self, job: Job, open_chunks: deque[int]) -> None:
        """Note the outcomes of one chunk's items; a job whose every item has one is done."""
        chunk = open_chunks.popleft() if open_chunks else 0
        items = await self._book.items(job.id, chunk)
        before = [item.outcome for item in items]
        for item in items:
            if item.outcome == "waiting":
                await self._look(item)
        changed = before != [item.outcome for item in items]
        if changed:
            await self._book.save_items(job.id, chunk, items)
            self._recount(job, before, items)
        if any(item.outcome == "waiting" for item in items):
            open_chunks.append(chunk)
        if not job.counts.waiting:
            job.state = "done"
        if changed or job.is_done:
            await self._save(job)
        else:
            await self._clock.sleep(_POLL)

    async def _count(self, job: Job) -> Counts:
        counts = Counts()
        for chunk in range(job.chunks):
            for item in await self._book.items(job.id, chunk):
                counts.selected += 1
                setattr(counts, item.outcome, getattr(counts, item.outcome) + 1)
        return counts

    def _recount(self, job: Job, before: list[str], items: list[Item]) -> None:
        for old, item in zip(before, items, strict=True):
            if old != item.outcome:
                job.counts.waiting -= 1
                setattr(job.counts, item.outcome, getattr(job.counts, item.outcome) + 1)

    async def _look(self, item: Item) -> None:
        trace = await self._store.trace(item.message_id)
        delivery = trace.deliveries.get(item.subscription) if trace is not None else None
        if delivery is None:
            item.outcome, item.reason = "missing", "the message is past its retention"
        elif delivery.generation > item.generation:
            item.outcome, item.reason = "skipped", "resent again since"
        elif delivery.generation == item.generation and delivery.status is not Status.RESEND:
            item.outcome = _OUTCOMES.get(delivery.status, "failed")
            item.reason = delivery.reason

    def _items(self, trace: Trace, selection: Selection) -> list[Item]:
        items = []
        for name in self._names(trace, selection):
            target = target_of(trace, name)
            item = Item(trace.id, name, target.generation)
            if is_pending(trace, name):
                item.outcome, item.reason = "skipped", "still pending: it is on its way"
            items.append(item)
        return items

    def _names(self, trace: Trace, selection: Selection) -> list[str]:
        """Return the subscriptions that a selection takes of a message."""
        known = self._registry.catalog.names(trace.destination)
        names = [name for name in trace.deliveries if name in known]
        if selection.subscription is not None:
            names = [selection.subscription] if selection.subscription in known else []
        if selection.status is not None or selection.asks_how_it_went:
            names = [name for name in names if is_chosen(trace.deliveries[name], selection)]
        return names
