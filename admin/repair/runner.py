"""Accepts bulk resends and discards, runs them concurrently, and continues them after a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from admin.repair.acts import Act
from admin.repair.choosing import Chooser
from admin.repair.jobs import Counts, Item, Job, JobRepository, Kind, Orders, chunk_document, job_document
from admin.repair.lost_deliveries import LostDeliveries
from admin.repair.resender import Cause, Resender, Target
from admin.repair.work import Work
from bus.domain.identity import id_time, new_id
from bus.domain.searching.selection import Selection
from bus.domain.tracing.trace import Trace
from bus.errors import Conflict, NotFound, StoreError, StoreUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.store import DocumentWrite, Store

_log = logging.getLogger(__name__)
_AFTER_FAILURE: Final = 1.0
_CHUNK: Final = 100


class JobRunner:
    """Runs all unfinished jobs of the store in this process."""

    def __init__(
        self,
        store: Store,
        chooser: Chooser,
        resender: Resender,
        lost: LostDeliveries,
        acts: Mapping[Kind, Act],
        repository: JobRepository,
        clock: Clock,
    ) -> None:
        self._store = store
        self._chooser = chooser
        self._resender = resender
        self._lost = lost
        self._acts = acts
        self._repository = repository
        self._clock = clock
        self._wake = asyncio.Event()
        self._working: set[str] = set()
        self._begun: list[Job] = []
        self._has_unread = True

    async def submit(self, job: Job) -> None:
        """Take a job; durable when it returns."""
        await self._repository.save(job)
        self._read_again()

    def _read_again(self) -> None:
        """Have all jobs read, and those started that are new; not for one message, as it takes 10 ms for 1,000 jobs."""
        self._has_unread = True
        self._wake.set()

    async def resend_one(
        self,
        trace: Trace,
        subscriptions: Sequence[str] | None,
        by: str,
        reason: str = "",
        documents: Sequence[DocumentWrite] = (),
    ) -> tuple[Job, list[Target]]:
        """Resend deliveries of one message; durable when it returns, and watched as a job.

        ``documents`` are written before the job, in the same write. Raises as ``Resender.choose`` and
        ``Resender.begin`` do.
        """
        targets = self._resender.choose(trace, subscriptions, await self._lost.names(trace))
        now = self._clock.now()
        selection = Selection(destination=trace.destination, text=trace.id)
        job = Job(new_id(now), selection, None, reason or f"resent by {by}", by, now, "waiting", started_at=now)
        job.chunks = 1
        job.counts = Counts(selected=len(targets), waiting=len(targets))
        items = [Item(trace.id, *target) for target in targets]
        # It is stored with nothing sent, so that after a crash in this write its worker does the rest.
        written = [*documents, chunk_document(job.id, 0, items), job_document(job)]
        try:
            await self._resender.begin(trace, targets, Cause(job.id, by, job.reason), written)
        except StoreUnavailable as error:
            self._read_again()  # the job may be stored, without the resend
            raise StoreUnavailable(
                localized("it is not known whether the resend began: {error}", error=error.said),
                hint=localized("check job {id} before you resend again: if it exists, it continues", id=job.id),
            ) from error
        except BaseException:
            self._read_again()
            raise
        job.sent = 1
        self._begun.append(job)
        self._wake.set()
        return job, targets

    async def end(
        self, destination: str, deliveries: Sequence[tuple[str, str]], rate: float | None, reason: str, by: str
    ) -> Job:
        """Finish deliveries that were found unfinished, as a job; durable when it returns.

        What is done with each is decided now (``Chooser.unended``).
        """
        items = await self._chooser.unended(destination, deliveries)
        now = self._clock.now()
        times = [id_time(item.message_id) for item in items]
        selection = Selection(destination=destination, since=min(times), before=max(times) + 1)
        job = Job(new_id(now), selection, rate, reason, by, now, "sending", started_at=now)
        for start in range(0, len(items), _CHUNK):
            await self._repository.save_items(job.id, job.chunks, items[start : start + _CHUNK])
            job.chunks += 1
        for item in items:
            job.counts.add(item.outcome)
        await self.submit(job)
        return job

    async def rerun(self, job: Job, outcomes: Sequence[str], rate: float | None, reason: str, by: str) -> Job:
        """Resend again the items of a finished job that have these outcomes; durable when it returns.

        Raises
        ------
        Conflict
            The job is not finished, so that the outcomes of its items are not known.
        """
        if not job.is_done:
            raise Conflict(
                localized("job {id} is not finished, so which items ended how is not known yet", id=job.id),
                hint=localized("wait for its end, or cancel it"),
            )
        now = self._clock.now()
        again = Job(new_id(now), job.selection, rate, reason or job.reason, by, now)
        again.rerun_of, again.outcomes, again.rerun_chunks = job.id, tuple(outcomes), job.chunks
        again.is_oldest_first = job.is_oldest_first
        await self.submit(again)
        job.reruns += (again.id,)
        await self._repository.save(job)
        return again

    async def cancel(self, job: Job) -> Orders:
        """Stop a job permanently, also after a restart; items that it has handled are not undone."""
        return Orders() if job.is_done else await self._repository.order(job.id, canceled=True)

    async def pause(self, job: Job) -> Orders:
        """Select and do nothing of a job until it is resumed, also after a restart; outcomes are still noted.

        Raises
        ------
        Conflict
            Everything was done already, or the job is canceled.
        """
        await self._refuse_unless_at_work(job)
        return await self._repository.order(job.id, paused=True)

    async def resume(self, job: Job) -> Orders:
        """Resume a paused job; raises as ``pause`` does."""
        await self._refuse_unless_at_work(job)
        return await self._repository.order(job.id, paused=False)

    async def change_rate(self, job: Job, rate: float | None) -> Orders:
        """Work at another rate within a second, also after a restart; raises as ``pause`` does."""
        await self._refuse_unless_at_work(job)
        return await self._repository.order(job.id, rate=rate, has_rate=True)

    async def _refuse_unless_at_work(self, job: Job) -> None:
        state = (await self._repository.orders(job.id)).state(job)
        if state not in ("selecting", "sending", "paused"):
            raise Conflict(
                localized(
                    "job {id} is {state}: nothing is left to be done, and nothing was changed",
                    id=job.id,
                    state=state,
                )
            )

    async def run(self) -> None:
        """Run jobs until cancelled; the store may be unavailable for any time."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                begun, self._begun = self._begun, []
                self._start(begun, group)
                try:
                    unread, self._has_unread = self._has_unread, False
                    self._start(await self._repository.all() if unread else (), group)
                except StoreError as error:
                    _log.warning("jobs wait for the store: %s", error)
                    self._has_unread = True
                    await self._clock.sleep(_AFTER_FAILURE)
                    continue
                await self._wake.wait()

    def _start(self, jobs: Iterable[Job], group: asyncio.TaskGroup) -> None:
        for job in jobs:
            if not job.is_done and job.id not in self._working:
                self._working.add(job.id)
                group.create_task(self._work(job))

    async def _work(self, job: Job) -> None:
        while True:
            try:
                await self._worker(job).finish()
                break
            except StoreError as error:
                _log.warning("job %s waits for the store: %s", job.id, error)
            found = await self._stored(job.id)
            if found is None:
                break
            job = found
        self._working.discard(job.id)

    async def _stored(self, job_id: str) -> Job | None:
        """Return a job as the store has it, once it answers; progress that was not written is done again."""
        while True:
            await self._clock.sleep(_AFTER_FAILURE)
            try:
                return await self._repository.get(job_id)
            except NotFound:
                return None
            except StoreError as error:
                _log.debug("job %s waits for the store: %s", job_id, error)

    def _worker(self, job: Job) -> Work:
        return Work(
            job,
            store=self._store,
            chooser=self._chooser,
            act=self._acts[job.kind],
            repository=self._repository,
            clock=self._clock,
        )
