"""Moves all that one spool holds into another: each record for just those consumers that have not finished it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

from bus.ports.spool import NewRecord, Record, Spool

_BATCH: Final = 256
_MOST_PASSED: Final = 1024


async def take_over(source: Spool, target: Spool) -> int:
    """Move every record, in the order of its stream, and return how many were moved.

    A record is durable in the target before it leaves the source, so that a crash between repeats a batch and loses
    none. No other process may claim from either. What is damaged stays in the source.

    Where more than ``_MOST_PASSED`` records wait in the target for a consumer, records that it had finished in the
    source wait for it again: to finish them, all of those would have to be claimed. A dispatcher asks the store about
    them.
    """
    lanes: defaultdict[str, list[str]] = defaultdict(list)
    for found in source.stats().consumers:
        lanes[found.lane].append(found.consumer)
    moved = 0
    for lane, consumers in lanes.items():
        moved += await _Lane(lane, consumers, source, target).move()
    return moved


class _Lane:
    """The move of one stream."""

    def __init__(self, name: str, consumers: Iterable[str], source: Spool, target: Spool) -> None:
        self._name = name
        self._source = source
        self._target = target
        self._heads: dict[str, deque[Record]] = {consumer: deque() for consumer in consumers}
        # What was claimed in the target on the way to what is finished, and is given back at the end.
        self._passed: dict[str, list[Record]] = {consumer: [] for consumer in self._heads}

    async def move(self) -> int:
        for consumer in self._heads:
            self._target.attach(self._name, consumer)
        reached = [name for name in self._heads if self._target.pending(name, self._name) <= _MOST_PASSED]
        moved = 0
        while batch := await self._next():
            positions = await self._target.append(
                [NewRecord(self._name, record.payload, record.time) for record, _ in batch], urgent=True
            )
            for consumer in reached:
                finished = {
                    position for position, (_, waiting) in zip(positions, batch, strict=True) if consumer not in waiting
                }
                await self._finish(consumer, finished)
            await self._target.settle()
            for record, waiting in batch:
                for consumer in waiting:
                    self._source.ack(consumer, [record])
            await self._source.settle()
            moved += len(batch)
        for consumer, records in self._passed.items():
            self._target.release(consumer, records)
        return moved

    async def _next(self) -> list[tuple[Record, set[str]]]:
        """Return the next records of the stream, each with the consumers that wait for it."""
        batch: list[tuple[Record, set[str]]] = []
        while len(batch) < _BATCH:
            for consumer, head in self._heads.items():
                if not head:
                    head.extend(await self._source.claim(consumer, _BATCH, self._name))
            heads = {consumer: head[0] for consumer, head in self._heads.items() if head}
            if not heads:
                break
            first = min(heads.values(), key=lambda record: record.position)
            waiting = {consumer for consumer, record in heads.items() if record.position == first.position}
            for consumer in waiting:
                self._heads[consumer].popleft()
            batch.append((first, waiting))
        return batch

    async def _finish(self, consumer: str, positions: set[int]) -> None:
        """Ack for a consumer the records that it had finished in the source."""
        while positions:
            claimed = await self._target.claim(consumer, _BATCH, self._name)
            finished = [record for record in claimed if record.position in positions]
            self._passed[consumer] += [record for record in claimed if record.position not in positions]
            positions.difference_update(record.position for record in finished)
            self._target.ack(consumer, finished)
            if not claimed:
                return
