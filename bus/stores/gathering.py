"""Group commit: callers at the same time share one write to the store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from bus.errors import BusError, StoreUnavailable
from bus.localized_text import localized

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchCollector(Generic[Item, Result]):
    """Collects items into batches while the commit before is under way.

    Parameters
    ----------
    commit
        Makes a batch durable and returns a result or an error for each item. When it raises a retriable error,
        all items get that; after any other the items are committed one by one.
    limit
        Weight of a batch; it ends with the item that reaches it.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        limit: int = 512,
    ) -> None:
        self._commit = commit
        self._limit = limit
        self._waiting: deque[tuple[Item, int, asyncio.Future[Result]]] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being committed."""
        return self._drain is None

    async def add(self, item: Item, weight: int = 1) -> Result:
        """Hand in an item and return its result once it is durable.

        Cancelling the wait leaves it open whether the item was committed; the others of its batch are not touched.
        """
        if self._closed:
            raise StoreUnavailable(localized("the store is closed; nothing of this call was written"))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, weight, future))
        if self._drain is None:
            self._drain = loop.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Refuse new items and commit those that wait."""
        self._closed = True
        if self._drain is not None:
            await asyncio.wait([self._drain])

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._commit_one(self._take())
        finally:
            self._drain = None

    def _take(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        taken = 0
        while self._waiting and taken < self._limit:
            item, weight, future = self._waiting.popleft()
            batch.append((item, future))
            taken += weight
        return batch

    async def _results_of(self, items: list[Item]) -> Sequence[Result | Exception]:
        """Commit a batch; after a permanent failure commit it item by item, so that only the faulty items fail."""
        try:
            return await self._commit(items)
        except Exception as error:  # noqa: BLE001 - it belongs to the callers, who get it
            if len(items) == 1 or (isinstance(error, BusError) and error.retriable):
                return [error] * len(items)
        return [result for item in items for result in await self._results_of([item])]

    async def _commit_one(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._results_of([item for item, _ in batch])
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
