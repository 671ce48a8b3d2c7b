"""One job at work: select, resend or discard, and watch until each item has an outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from admin.repair.acts import Act
from admin.repair.choosing import Chooser
from admin.repair.jobs import Counts, Item, Job, JobRepository, Orders
from bus.domain.delivery.rate import TokenBucket
from bus.domain.delivery.reasons import EXPIRED
from bus.ports.clock import Clock
from bus.ports.store import Store

_PAGE: Final = 100
_POLL: Final = 0.1
_LONGEST_SLEEP: Final = 0.5
_ORDERS_EVERY: Final = 0.2


class Work:
    """Runs one job from its state in the store; after an error of the store it is replaced by a new ``Work``."""

    def __init__(
        self, job: Job, *, store: Store, chooser: Chooser, act: Act, repository: JobRepository, clock: Clock
    ) -> None:
        self._job = job
        self._store = store
        self._chooser = chooser
        self._act = act
        self._repository = repository
        self._clock = clock
        self._bucket = TokenBucket(job.rate)
        self._orders = Orders()
        self._orders_at = float("-inf")
        # The items of the chunk that is being worked on, and those that the act was not applied to yet.
        self._items: list[Item] | None = None
        self._unsent: list[Item] = []
        self._open: deque[int] = deque()

    async def finish(self) -> None:
        """Work until the job is done or canceled; raises ``StoreError`` when the store does not answer."""
        job = self._job
        # The job may have crashed after it wrote a chunk and before its counts, so they are taken from the chunks.
        job.counts = await self._count()
        self._open.extend(range(job.sent))
        while not job.is_done:
            await self._read_orders()
            if self._orders.canceled:
                await self._cancel()
            elif job.state == "waiting" and job.sent == job.chunks:
                await self._wait()
            elif self._orders.paused:
                await self._watch(_LONGEST_SLEEP)
            elif job.state == "selecting":
                await self._select()
            elif job.sent < job.chunks:
                await self._send()
            else:
                await self._act.end(job)
                job.state = "waiting"
                await self._repository.save(job)

    async def _read_orders(self) -> None:
        now = self._clock.monotonic()
        if now - self._orders_at >= _ORDERS_EVERY:
            self._orders, self._orders_at = await self._repository.orders(self._job.id), now
            self._bucket.change(self._orders.rate_of(self._job))

    async def _select(self) -> None:
        """Freeze one page of the selection as a chunk."""
        job = self._job
        items, following = await (self._chosen_again() if job.rerun_of else self._chosen())
        if items:
            await self._repository.save_items(job.id, job.chunks, items)
            job.chunks += 1
            for item in items:
                job.counts.add(item.outcome)
        job.cursor = following
        if following is None:
            await self._act.begin(job)
            job.state, job.started_at = "sending", self._clock.now()
        await self._repository.save(job)

    async def _chosen(self) -> tuple[list[Item], str | None]:
        job, selection = self._job, self._job.selection
        page = await self._store.search(selection, cursor=job.cursor, limit=_PAGE)
        traces = reversed(page.traces) if job.is_oldest_first else page.traces
        items = [
            await self._act.item(job, trace, name) for trace in traces for name in self._chooser.names(trace, selection)
        ]
        return items, page.next

    async def _chosen_again(self) -> tuple[list[Item], str | None]:
        """Return the items of one chunk of the job that this one reruns."""
        job, chunk = self._job, int(self._job.cursor or 0)
        found = [item for item in await self._repository.items(job.rerun_of, chunk) if item.outcome in job.outcomes]
        items = await asyncio.gather(*(self._again(item) for item in found))
        return list(items), str(chunk + 1) if chunk + 1 < job.rerun_chunks else None

    async def _again(self, item: Item) -> Item:
        trace = await self._store.trace(item.message_id)
        if trace is None:
            return Item(item.message_id, item.subscription, item.generation, "missing", EXPIRED)
        return await self._act.item(self._job, trace, item.subscription)

    async def _send(self) -> None:
        """Apply the act to as many items of one chunk as the rate allows.

        Repeating it changes nothing: generations are fixed.
        """
        job = self._job
        if self._items is None:
            self._items = await self._repository.items(job.id, job.chunk_at(job.sent))
            self._unsent = [item for item in self._items if item.outcome == "waiting"]
        now = self._clock.monotonic()
        count = self._bucket.available(now, len(self._unsent))
        if self._unsent and not count:
            await self._watch(min(self._bucket.wait(now), _LONGEST_SLEEP))
            return
        self._bucket.take(count)
        await self._apply(self._unsent[:count])
        del self._unsent[:count]
        if not self._unsent:
            await self._repository.save_items(job.id, job.chunk_at(job.sent), self._items)
            self._open_chunk(job.sent)
            self._items = None
            job.sent += 1
            await self._repository.save(job)
            await self._settle()

    async def _apply(self, items: Sequence[Item]) -> None:
        await self._act.apply(self._job, items)
        for item in items:
            if item.outcome != "waiting":
                self._job.counts.move("waiting", item.outcome)

    async def _wait(self) -> None:
        """Read the last outcomes; once every item has one, the job is done."""
        job = self._job
        if job.counts.waiting:
            self._open = self._open or deque(range(job.chunks))
            await self._watch(_POLL)
        if self._is_over():
            await self._repository.save(job)

    def _is_over(self) -> bool:
        """End a job that waits for no outcome any more; return whether it did."""
        job = self._job
        if job.state != "waiting" or job.counts.waiting:
            return False
        job.state, job.finished_at = "done", self._clock.now()
        return True

    async def _watch(self, seconds: float) -> None:
        """Read the outcomes of one chunk, and wait if there were no new ones."""
        if self._items is not None:
            self._open_chunk(self._job.sent)
        if not await self._settle():
            await self._clock.sleep(seconds)

    def _open_chunk(self, chunk: int) -> None:
        if chunk not in self._open:
            self._open.append(chunk)

    async def _settle(self) -> bool:
        """Write the new outcomes of one chunk that has waiting items; return whether there were any."""
        if not self._open:
            return False
        chunk = self._open.popleft()
        items = await self._items_of(chunk)
        unsent = {id(item) for item in self._unsent}
        waiting = [item for item in items if item.outcome == "waiting"]
        await asyncio.gather(*(self._look(item) for item in waiting if id(item) not in unsent))
        ended = await self._note(chunk, items, waiting)
        if ended < len(waiting):
            self._open.append(chunk)
        return ended > 0

    async def _items_of(self, chunk: int) -> list[Item]:
        if self._items is not None and chunk == self._job.sent:
            return self._items
        return await self._repository.items(self._job.id, self._job.chunk_at(chunk))

    async def _note(self, chunk: int, items: list[Item], waiting: Sequence[Item]) -> int:
        """Write a chunk whose waiting items have outcomes now; return how many have."""
        ended = [item for item in waiting if item.outcome != "waiting"]
        if ended:
            for item in ended:
                self._job.counts.move("waiting", item.outcome)
            self._is_over()
            await self._repository.note(self._job, self._job.chunk_at(chunk), items)
        return len(ended)

    async def _look(self, item: Item) -> bool:
        """Set an item's outcome from its trace if there is one; return whether the act was applied to it."""
        trace = await self._store.trace(item.message_id)
        delivery = trace.deliveries.get(item.subscription) if trace is not None else None
        if delivery is None:
            item.outcome, item.reason = "missing", EXPIRED
            return False
        return self._act.look(self._job, item, delivery)

    async def _cancel(self) -> None:
        """Give every item that the act was not applied to the outcome ``canceled``; the others stay as they are."""
        job = self._job
        await self._act.end(job)
        for chunk in range(job.chunks):
            items = await self._items_of(chunk)
            waiting = [item for item in items if item.outcome == "waiting"]
            if chunk > job.sent:
                for item in waiting:
                    item.outcome, item.reason = "canceled", self._act.left_out
            else:
                await asyncio.gather(*(self._end(item, was_sent=chunk < job.sent) for item in waiting))
            if waiting:
                await self._repository.save_items(job.id, job.chunk_at(chunk), items)
        job.counts = await self._count()
        job.state, job.finished_at = "canceled", self._clock.now()
        await self._repository.save(job)

    async def _end(self, item: Item, *, was_sent: bool) -> None:
        if not (await self._look(item) or was_sent):
            item.outcome, item.reason = "canceled", self._act.left_out
        elif item.outcome == "waiting":
            item.reason = self._act.unknown

    async def _count(self) -> Counts:
        counts = Counts()
        for chunk in range(self._job.chunks):
            for item in await self._repository.items(self._job.id, chunk):
                counts.add(item.outcome)
        return counts
