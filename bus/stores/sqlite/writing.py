"""The hot path: one gathering of messages and outcomes becomes one transaction per partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import apsw

from bus.domain.delivery.delivery import Compensation, compensation_of
from bus.domain.tracing.trace import finished_generation, is_overtaken
from bus.ports.store import DocumentWrite
from bus.stores.sqlite.compensations import Compensations, Ending, LaneKey
from bus.stores.sqlite.connection import patiently
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import Label, day_number
from bus.stores.sqlite.locking import WriteLock
from bus.stores.sqlite.partitions.merging import KeyedWrite, Merge
from bus.stores.sqlite.partitions.open_partitions import OpenPartitions
from bus.stores.sqlite.partitions.partition import Partition


class Call(NamedTuple):
    """The writes of one caller."""

    writes: Sequence[KeyedWrite]
    documents: Sequence[DocumentWrite]


class TraceWriter:
    """Writes gatherings, one at a time among all processes: each holds ``turn`` meanwhile."""

    def __init__(
        self, open_partitions: OpenPartitions, compensations: Compensations, turn: WriteLock, executor: Executor
    ) -> None:
        self._open_partitions = open_partitions
        self._compensations = compensations
        self._turn = turn
        self._executor = executor

    async def commit(self, calls: list[Call]) -> list[None]:
        """Make the writes of several callers durable: unfinished work first, then the documents."""
        async with self._turn.held():
            merges: list[Merge] = []
            try:
                for label, writes in _split(calls):
                    merges.append(Merge(await self._begun(label), writes))
                for merge in merges:
                    with translating(merge.partition.name):
                        await merge.apply()
                await self._compensate(merges, [document for call in calls for document in call.documents])
                await asyncio.get_running_loop().run_in_executor(self._executor, _commit, merges)
                for merge in merges:
                    merge.remember()
            except BaseException:
                for merge in merges:
                    self._roll_back(merge.partition)
                raise
            finally:
                for merge in merges:
                    await self._open_partitions.unpin(merge.partition)
        return [None] * len(calls)

    async def _begun(self, label: Label) -> Partition:
        """Return a pinned partition inside a write transaction; no other process drops it before that ends."""
        while True:
            partition = await self._open_partitions.pin(label)
            try:
                with translating(partition.name):
                    await patiently(partition.begin)
                if partition.present():
                    return partition
                self._roll_back(partition)
            except BaseException:
                await self._open_partitions.unpin(partition)
                raise
            await self._open_partitions.unpin(partition)

    def _roll_back(self, partition: Partition) -> None:
        try:
            partition.roll_back()
        except apsw.Error:
            self._open_partitions.discard(partition)

    async def _compensate(self, merges: Sequence[Merge], documents: Sequence[DocumentWrite]) -> None:
        """Write documents and the rows of unfinished deliveries, durable on return; delete those of finished ones.

        An outcome that repeats after its delivery was finished makes no row; no other process can finish it in
        between, since that takes the turn. Nothing is written for finished deliveries of a subscription without rows.
        """
        holding = await self._compensations.due()
        rows: list[Compensation] = []
        endings: defaultdict[LaneKey, list[Ending]] = defaultdict(list)
        for merge in merges:
            for key, outcome in merge.outcomes:
                if (row := compensation_of(outcome)) is not None:
                    if not is_overtaken(merge.held[key].trace, outcome):
                        rows.append(row)
                elif (ended := finished_generation(outcome)) >= 0:
                    lane = (outcome.destination, outcome.subscription)
                    if lane in holding:
                        endings[lane].append((key, ended))
        if rows or endings or documents:
            await self._compensations.change(rows, endings, documents, synced=bool(rows or documents))


def _split(calls: list[Call]) -> list[tuple[Label, list[KeyedWrite]]]:
    """Return the writes by partition, in the one order in which every process locks them."""
    writes: defaultdict[tuple[int, int], list[KeyedWrite]] = defaultdict(list)
    for call in calls:
        for keyed in call.writes:
            writes[day_number(keyed.key), keyed.write.retention_days].append(keyed)
    return [(Label(*place), writes[place]) for place in sorted(writes)]


def _commit(merges: Sequence[Merge]) -> None:
    for merge in merges:
        with translating(merge.partition.name):
            merge.partition.commit()
