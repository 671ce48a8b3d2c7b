"""A spool in memory that is as slow, or as full, as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bus.errors import SpoolError
from bus.ports.spool import NewRecord, Record, Waiter, tell
from bus.testing.spool import MemorySpool


class GatedSpool(MemorySpool):
    """A spool whose appends wait while the gate is closed, as for a slow disk.

    Attributes
    ----------
    refuse
        Asked at each append: the error that it raises, if any.
    appends
        How many there were.
    hurried
        The number of records of each that was not to linger.
    """

    def __init__(self, *consumers: str) -> None:
        super().__init__(consumers=consumers)
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuse: Callable[[], Exception | None] = lambda: None
        self.appends = 0
        self.hurried: list[int] = []
        self._appending: set[asyncio.Task[None]] = set()

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        self.appends += 1
        await self.gate.wait()
        if (error := self.refuse()) is not None:
            raise error
        return await super().append(records, urgent=urgent)

    def append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool = False,
        lingers: bool = False,
        consumer: str = "",
        done: Sequence[Record] = (),
    ) -> None:
        if not lingers:
            self.hurried.append(len(records))
        storing = self._append_with(records, waiter, urgent=urgent, consumer=consumer, done=done)
        appending = asyncio.get_running_loop().create_task(storing)
        self._appending.add(appending)
        appending.add_done_callback(self._appending.discard)

    async def _append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool,
        consumer: str,
        done: Sequence[Record],
    ) -> None:
        try:
            positions = await self.append(records, urgent=urgent)
        except SpoolError as error:
            tell(waiter, error)
        else:
            self.ack(consumer, done)
            tell(waiter, positions)


def once(error: Exception | None) -> Callable[[], Exception | None]:
    """Return what refuses the next append only."""
    errors = [error]
    return lambda: errors.pop() if errors else None
