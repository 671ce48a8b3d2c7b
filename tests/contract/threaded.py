"""A blocking spool in the shape of the async port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bus.errors import SpoolError
from bus.ports.spool import NewRecord, Record, Waiter, tell
from bus.spool import BlockingSpool

SLOW = {"append", "claim", "newest", "wait", "settle", "close"}


class Threaded:
    """Each slow call runs in a thread of its own."""

    def __init__(self, spool: BlockingSpool) -> None:
        self._spool = spool
        self._appending: set[asyncio.Task[None]] = set()

    def append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool = False,
        lingers: bool = False,  # noqa: ARG002
        consumer: str = "",
        done: Sequence[Record] = (),
    ) -> None:
        """Append in a thread, and tell the waiter on the loop."""
        store = partial(self._spool.exchange, consumer, done, records, urgent=urgent)
        appending = asyncio.ensure_future(self._append_with(store, waiter))
        self._appending.add(appending)
        appending.add_done_callback(self._appending.discard)

    async def _append_with(self, store: Callable[[], list[int]], waiter: Waiter[list[int]]) -> None:
        try:
            positions = await asyncio.to_thread(store)
        except SpoolError as error:
            tell(waiter, error)
        else:
            tell(waiter, positions)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._spool, name)
        return partial(asyncio.to_thread, method) if name in SLOW else method
