"""The hot path: one gathering of messages and outcomes becomes one transaction per partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor

import apsw

from bus.domain.delivery import Compensation, Status, compensation_of
from bus.domain.trace import finished_generation, is_finished
from bus.stores.sqlite.compensations import Compensations, Ending, LaneKey
from bus.stores.sqlite.failures import translating
from bus.stores.sqlite.keys import day_number
from bus.stores.sqlite.merging import Keyed, Merge
from bus.stores.sqlite.shelf import Label, Shelf


class TraceWriter:
    """Writes gatherings, one at a time; ``lock`` is held meanwhile."""

    def __init__(self, shelf: Shelf, compensations: Compensations, executor: Executor) -> None:
        self.lock = asyncio.Lock()
        self._shelf = shelf
        self._compensations = compensations
        self._executor = executor

    async def commit(self, calls: list[Sequence[Keyed]]) -> list[None]:
        """Make the writes of several callers durable: unfinished work first, then the documents."""
        async with self.lock:
            merges = await self._split(calls)
            try:
                for merge in merges:
                    with translating(merge.partition.name):
                        await merge.apply()
                await self.compensate(merges)
                await asyncio.get_running_loop().run_in_executor(self._executor, _commit, merges)
            except BaseException:
                await self._roll_back(merges)
                raise
            finally:
                for merge in merges:
                    merge.partition.pins -= 1
            for merge in merges:
                merge.remember()
        return [None] * len(calls)

    async def _roll_back(self, merges: Sequence[Merge]) -> None:
        for merge in merges:
            try:
                merge.partition.roll_back()
            except apsw.Error:
                await self._shelf.discard(merge.partition)

    async def _split(self, calls: list[Sequence[Keyed]]) -> list[Merge]:
        writes: defaultdict[tuple[int, int], list[Keyed]] = defaultdict(list)
        for call in calls:
            for keyed in call:
                writes[day_number(keyed.key), keyed.write.retention_days].append(keyed)
        merges: list[Merge] = []
        try:
            for (day, retention_days), part in writes.items():
                merges.append(Merge(await self._shelf.pin(Label(day, retention_days)), part))
        except BaseException:
            for merge in merges:
                merge.partition.pins -= 1
            raise
        return merges

    async def compensate(self, merges: Sequence[Merge]) -> None:
        """Make the rows of unfinished deliveries, and delete those of finished ones; durable when it returns.

        An outcome that repeats after its delivery was finished makes no row. Nothing is asked of the file for
        deliveries of a subscription that has no rows.
        """
        holding = self._compensations.holding()
        rows: list[Compensation] = []
        endings: defaultdict[LaneKey, list[Ending]] = defaultdict(list)
        for merge in merges:
            for key, outcome in merge.outcomes:
                if outcome.status in (Status.RETRYING, Status.RESEND):
                    row = compensation_of(outcome)
                    if row and not is_finished(merge.held[key].trace, outcome.subscription, outcome.generation):
                        rows.append(row)
                elif (ended := finished_generation(outcome)) >= 0:
                    lane = (outcome.destination, outcome.subscription)
                    if holding is None or lane in holding:
                        endings[lane].append((key, ended))
        if rows or endings:
            await self._compensations.change(rows, endings)


def _commit(merges: Sequence[Merge]) -> None:
    for merge in merges:
        with translating(merge.partition.name):
            merge.partition.commit()
