"""Reads from the partitions: point reads on the loop, long ones in a thread."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.trace import Trace, is_finished
from bus.ports.store import DeliveryKey, Page, SearchedRange
from bus.stores.sqlite.keys import GREATEST, Label, day_number, id_key, key_time
from bus.stores.sqlite.partitions.directory import Directory
from bus.stores.sqlite.partitions.open_partitions import OpenPartitions
from bus.stores.sqlite.search import Searcher

Result = TypeVar("Result")
_SLICE: Final = 64


class CommittedReader:
    """Reads what is committed; never waits for a writer."""

    def __init__(self, open_partitions: OpenPartitions, directory: Directory) -> None:
        self._open_partitions = open_partitions
        self._searcher = Searcher(directory)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-read")

    def newest_first(self) -> list[Label]:
        """Return all partitions, the newest day first."""
        return self._open_partitions.newest_first()

    async def run(self, job: Callable[[Searcher], Result]) -> Result:
        """Run a long read in the reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self._searcher)

    async def trace(self, message_id: str) -> Trace | None:
        """Return a message's document, without its body."""
        found = await self._find(message_id)
        return found[0] if found else None

    async def message(self, message_id: str) -> Message | None:
        """Return the whole message with its body."""
        found = await self._find(message_id)
        if found is None or found[0].message is None:
            return None
        return msgspec.structs.replace(found[0].message, body=found[1])

    async def finished(self, keys: Sequence[DeliveryKey]) -> set[DeliveryKey]:
        """Return those deliveries that need no further POST."""
        finished: set[DeliveryKey] = set()
        for (day, retention_days), wanted in _by_partition(keys).items():
            async with self._open_partitions.reading(Label(day, retention_days)) as partition:
                if partition is None:
                    continue
                for place, (binary, key) in enumerate(wanted, 1):
                    trace = await partition.trace(binary)
                    if trace is not None and is_finished(trace, key.subscription, key.generation):
                        finished.add(key)
                    if place % _SLICE == 0:
                        await asyncio.sleep(0)
        return finished

    async def search(self, selection: Selection, cursor: str | None, limit: int) -> Page:
        """Return one page, newest id first."""
        below = GREATEST if cursor is None else _cursor_key(cursor)
        partitions = self.newest_first()
        found, horizon, stop = await self.run(lambda searcher: searcher.search(partitions, selection, below, limit))
        ends = [end for end in (selection.before, None if cursor is None else _time_above(below)) if end is not None]
        since = selection.since if horizon is None else key_time(horizon)
        searched = SearchedRange(since, min(ends, default=None), stop)
        return Page([trace for _, trace in found], None if horizon is None else horizon.hex(), searched)

    async def forget(self, label: Label) -> None:
        """Close a partition that goes away."""
        await self.run(lambda searcher: searcher.forget(label))

    async def close(self) -> None:
        """Close the reader's connections and end its thread."""
        await self.run(Searcher.close)
        self._thread.shutdown()

    async def _find(self, message_id: str) -> tuple[Trace, bytes] | None:
        """Return document and body; of several retention classes the one that has the message."""
        key = _key_or_none(message_id)
        best: tuple[Trace, bytes] | None = None
        if key is None:
            return None
        for label in self._open_partitions.of_day(day_number(key)):
            async with self._open_partitions.reading(label) as partition:
                found = await partition.body(key) if partition is not None else None
            if found is not None and (best is None or found[0].message is not None):
                best = found
        return best


def _by_partition(keys: Sequence[DeliveryKey]) -> dict[tuple[int, int], list[tuple[bytes, DeliveryKey]]]:
    found: defaultdict[tuple[int, int], list[tuple[bytes, DeliveryKey]]] = defaultdict(list)
    for key in keys:
        binary = _key_or_none(key.message_id)
        if binary is not None:
            found[day_number(binary), key.retention_days].append((binary, key))
    return found


def _key_or_none(message_id: str) -> bytes | None:
    try:
        key = id_key(message_id)
    except ValueError:
        return None
    return key if len(key) == len(GREATEST) else None


def _time_above(key: bytes) -> int:
    """Return the time (ms) that every key below this one was made before."""
    return key_time(key) + (len(key) == len(GREATEST))


def _cursor_key(cursor: str) -> bytes:
    try:
        return bytes.fromhex(cursor)
    except ValueError as error:
        raise ValueError("the cursor is not one that a search gave; begin again without a cursor") from error
