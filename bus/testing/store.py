"""A store in memory: the port's rules in dictionaries, for tests and as the model of the real ones."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

import msgspec

from bus.domain.delivery.canceling import canceled, canceled_row
from bus.domain.delivery.delivery import Compensation, Outcome, Status, compensation_of, rewound
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY, day_of
from bus.domain.tracing.contents import Contents, Tally
from bus.domain.tracing.failures import FailureCount, Failures, failures_in
from bus.domain.tracing.partition import PartitionLabel
from bus.domain.tracing.trace import (
    Trace,
    finished_generation,
    is_finished,
    is_overtaken,
    matches,
    merge_message,
    merge_outcome,
    received_at,
    start_trace,
    waits_unseen,
)
from bus.errors import Conflict, NotFound
from bus.ports.store import (
    MOST_GROUPS,
    MOST_KEYS,
    NEVER,
    DeliveryKey,
    Document,
    DocumentWrite,
    Ended,
    KeyRows,
    Page,
    SearchedRange,
    Stop,
    UnfinishedRows,
    changed_meanwhile,
    untold,
)

_OPEN = frozenset({Status.PENDING, Status.RETRYING, Status.RESEND})


class MemoryStore:
    """The ``Store`` in dictionaries; nothing survives the process."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}
        self._bodies: dict[str, bytes] = {}
        self._rows: dict[tuple[str, str], Compensation] = {}
        self._documents: dict[tuple[str, str], Document] = {}
        self._turn = ("", "")

    async def write(self, writes: Sequence[Message | Outcome], documents: Sequence[DocumentWrite] = ()) -> None:
        """Merge messages and outcomes into their documents."""
        await MemoryStore.note(self, documents)
        for write in writes:
            if isinstance(write, Message):
                if merge_message(self._trace_of(write.id, write), write):
                    self._bodies[write.id] = write.body
            else:
                merge_outcome(self._trace_of(write.message_id, write), write)
        for write in writes:
            if isinstance(write, Outcome):
                self._follow(write)

    async def trace(self, message_id: str) -> Trace | None:
        """Return a message's document, without its body."""
        trace = self._traces.get(message_id)
        return _copy(trace) if trace is not None else None

    async def message(self, message_id: str) -> Message | None:
        """Return the whole message with its body."""
        trace = self._traces.get(message_id)
        if trace is None or trace.message is None:
            return None
        return msgspec.structs.replace(trace.message, body=self._bodies[message_id])

    async def finished(self, keys: Sequence[DeliveryKey]) -> set[DeliveryKey]:
        """Return those deliveries that need no further POST."""
        return {
            key
            for key in keys
            if (trace := self._traces.get(key.message_id)) is not None
            and trace.retention_days == key.retention_days
            and is_finished(trace, key.subscription, key.generation)
        }

    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return one page, newest id first."""
        ids = sorted((name for name in self._traces if cursor is None or name < cursor), reverse=True)
        found = [
            _copy(self._traces[name])
            for name in ids
            if matches(self._traces[name], selection, self._bodies.get(name) if selection.reads_bodies else None)
        ]
        following = found[limit - 1].id if len(found) > limit else None
        start, end = selection.since, selection.before
        if cursor is not None:
            end = min(id_time(cursor) + 1, end) if end is not None else id_time(cursor) + 1
        searched = SearchedRange(id_time(following) if following else start, end, Stop.LIMIT if following else None)
        return Page(found[:limit], following, searched)

    async def failures(self, selection: Selection, *, limit: int = MOST_GROUPS) -> Failures:
        """Return what fails, grouped."""
        count = FailureCount()
        since, before = selection.since or 0, selection.before or math.inf
        for trace in self._traces.values():
            if since <= id_time(trace.id) < before:
                for group in failures_in(trace):
                    wanted = selection.destination in (None, group.destination)
                    if wanted and selection.subscription in (None, group.subscription):
                        count.add(group)
        return count.largest(limit)

    async def unsettled(self, destination: str, subscription: str, before: int, limit: int) -> builtins.list[Message]:
        """Return whole messages whose delivery is pending and that were received before a time, the oldest first."""
        selection = Selection(destination=destination, subscription=subscription, status=Status.PENDING)
        found = [
            message
            for name in sorted(self._traces)
            if matches(self._traces[name], selection)
            and waits_unseen(self._traces[name], subscription)
            and (message := await self.message(name)) is not None
            and max(message.received_at, message.deliver_at) < before
        ]
        return found[:limit]

    async def expire(self, now: int) -> tuple[builtins.list[str], builtins.list[str]]:
        """Drop whole partitions past their retention in which nothing is unfinished."""
        partitions: dict[tuple[str, int], builtins.list[Trace]] = {}
        for trace in self._traces.values():
            partitions.setdefault((day_of(id_time(trace.id)), trace.retention_days), []).append(trace)
        dropped: builtins.list[str] = []
        kept: builtins.list[str] = []
        for (day, retention), traces in sorted(partitions.items()):
            if max(map(_received_at, traces)) >= now - retention * DAY:
                continue
            unfinished = any(delivery.status in _OPEN for trace in traces for delivery in trace.deliveries.values())
            (kept if unfinished else dropped).append(f"{day}-{retention}d")
            for trace in traces if not unfinished else ():
                del self._traces[trace.id]
                self._bodies.pop(trace.id, None)
        return dropped, kept

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a partition whole that has exactly these contents and is finished."""
        tally = Tally()
        traces = [
            trace
            for trace in self._traces.values()
            if (id_time(trace.id) // DAY, trace.retention_days) == tuple(partition)
        ]
        if not traces:
            raise NotFound(f"there is no partition {partition.name}")
        for trace in traces:
            tally.add(trace, self._bodies.get(trace.id, b""))
        if not tally.is_finished or tally.contents != contents:
            raise Conflict(f"partition {partition.name} has {tally.contents}, not {contents}, or is not finished")
        for trace in traces:
            del self._traces[trace.id]
            self._bodies.pop(trace.id, None)

    async def compensate(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one of a greater (generation, attempts) replaces, any other leaves the present one."""
        for row in rows:
            present = self._rows.get((row.message_id, row.subscription))
            if present is None or (row.generation, row.attempts) > (present.generation, present.attempts):
                self._rows[row.message_id, row.subscription] = _replacing(present, row)

    async def ready(self, now: int) -> set[tuple[str, str]]:
        """Return each (destination, subscription) with rows that can be leased now."""
        return {(row.destination, row.subscription) for row in self._rows.values() if _ready_at(row) <= now}

    async def lease(
        self,
        now: int,
        until: int,
        room: dict[tuple[str, str], int],
        limit: int,
        *,
        owner: str = "",
        over: int | None = None,
    ) -> builtins.list[Compensation]:
        """Take rows that are due and not leased, round robin over subscriptions, and raise their epoch."""
        waiting: dict[tuple[str, str], builtins.list[Compensation]] = {}
        for row in sorted(self._rows.values(), key=_ready_at):
            lane = (row.destination, row.subscription)
            is_ready = _ready_at(row) <= now and row.lease_until <= (now if over is None else over)
            if is_ready and len(waiting.get(lane, ())) < room.get(lane, 0):
                waiting.setdefault(lane, []).append(row)
        lanes = sorted(waiting, key=lambda lane: (lane <= self._turn, lane))
        taken: builtins.list[Compensation] = []
        while any(waiting.values()) and len(taken) < limit:
            for lane in [lane for lane in lanes if waiting[lane]][: limit - len(taken)]:
                taken.append(self._take(waiting[lane].pop(0), now, until, owner))
                self._turn = lane
        return taken

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner who has just started again; return how many."""
        held = [name for name, row in self._rows.items() if row.lease_until and row.owner == owner]
        for name in held:
            self._rows[name] = msgspec.structs.replace(self._rows[name], lease_until=0)
        return len(held)

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give leased rows back, unless another lease has taken them."""
        for row in rows:
            present = self._rows.get((row.message_id, row.subscription))
            if present is not None and _fence(present) == _fence(row):
                self._rows[row.message_id, row.subscription] = msgspec.structs.replace(present, lease_until=0)

    async def rewind(self, now: int, skew: int) -> int:
        """Keep the waits of rows that were set when the clock was ahead of now; return how many there were."""
        ahead = {name: row for name, row in self._rows.items() if row.set_at > now + skew}
        self._rows |= {name: rewound(row, now) for name, row in ahead.items()}
        return len(ahead)

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        for row in rows:
            self._end((row.message_id, row.subscription), row.generation)

    async def subscribed(self) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that the store has a delivery of."""
        traced = {(trace.destination, name) for trace in self._traces.values() for name in trace.deliveries}
        return traced | {(row.destination, row.subscription) for row in self._rows.values() if row.subscription}

    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:
        """End open deliveries of a removed subscription, of messages received until now (ms); return how many."""
        lane = (destination, subscription)
        rows = [
            row
            for row in self._rows.values()
            if (row.destination, row.subscription) == lane
            and received_at(self._traces.get(row.message_id), row.message) <= now
        ]
        outcomes = {
            trace.id: canceled(trace, subscription, now)
            for trace in self._traces.values()
            if trace.destination == destination
            and (delivery := trace.deliveries.get(subscription)) is not None
            and delivery.status in _OPEN
            and trace.message is not None
            and trace.message.received_at <= now
        }
        for row in rows:
            trace = self._traces.get(row.message_id)
            outcome = canceled_row(row, _copy(trace) if trace is not None else None, now)
            if outcome is not None:
                outcomes[row.message_id] = outcome
        await self.write(list(outcomes.values()))
        ended(list(outcomes.values()))
        await self.finish(rows)
        return len(outcomes)

    async def due(self, now: int) -> dict[tuple[str, str], int]:  # noqa: ARG002 - rows count, due or not
        """Return how many rows wait for each (destination, subscription), due or not."""
        counts: dict[tuple[str, str], int] = {}
        for row in self._rows.values():
            lane = (row.destination, row.subscription)
            counts[lane] = counts.get(lane, 0) + 1
        return counts

    async def unfinished(self, now: int) -> dict[tuple[str, str], UnfinishedRows]:
        """Return the rows of each (destination, subscription) that has some."""
        found: dict[tuple[str, str], UnfinishedRows] = {}
        for row in self._rows.values():
            lane, ready_at = (row.destination, row.subscription), _ready_at(row)
            rows, due, next_at = found.get(lane, UnfinishedRows(0, 0, None))
            first = ready_at if next_at is None else min(next_at, ready_at)
            found[lane] = UnfinishedRows(rows + 1, due + (ready_at <= now), None if row.place else first)
        return found

    async def next_due(self) -> int | None:
        """Return the earliest time (ms) at which a row can be leased, None when there are none."""
        return min((_ready_at(row) for row in self._rows.values() if not row.place), default=None)

    async def ordered_keys(
        self, destination: str, subscription: str, *, after: str | None = None, limit: int = MOST_KEYS
    ) -> builtins.list[KeyRows]:
        """Return the keys with rows that keep an order, those after one."""
        found: dict[str, builtins.list[int]] = {}
        for row in self._rows.values():
            if row.place and (row.destination, row.subscription) == (destination, subscription):
                found.setdefault(row.order_key, []).append(row.place)
        chosen = [name for name in sorted(found) if after is None or name > after][:limit]
        return [KeyRows(name, len(found[name]), max(found[name])) for name in chosen]

    async def ordered_rows(
        self, destination: str, subscription: str, order_key: str, *, after: int = 0, limit: int
    ) -> builtins.list[Compensation]:
        """Return the rows of a key behind a place, in order."""
        rows = [
            row
            for row in self._rows.values()
            if (row.destination, row.subscription, row.order_key) == (destination, subscription, order_key)
            and row.place > after
        ]
        return sorted(rows, key=lambda row: row.place)[:limit]

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        return self._documents.get((collection, key))

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> builtins.list[Document]:
        """Return documents by key order, those with the prefix and after a key."""
        chosen = sorted(
            key for found, key in self._documents if found == collection and key.startswith(prefix) and key > after
        )
        return [self._documents[collection, key] for key in chosen[:limit]]

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document and return its new version."""
        document = self._documents.get((collection, key))
        present = document.version if document is not None else 0
        if version is not None and version != present:
            raise changed_meanwhile(collection, key, present, version)
        self._documents[collection, key] = Document(key, present + 1, value)
        return present + 1

    async def note(self, documents: Sequence[DocumentWrite]) -> None:
        """Write documents."""
        for document in documents:
            await MemoryStore.put(self, *document)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; whether it was there."""
        return self._documents.pop((collection, key), None) is not None

    async def close(self) -> None:
        """Do nothing: there is nothing to give up."""

    def _trace_of(self, message_id: str, write: Message | Outcome) -> Trace:
        trace = self._traces.get(message_id)
        if trace is None:
            trace = self._traces[message_id] = start_trace(message_id, write.destination, write.retention_days)
        return trace

    def _follow(self, outcome: Outcome) -> None:
        """Make, replace or delete the row of an outcome."""
        name = (outcome.message_id, outcome.subscription)
        row = compensation_of(outcome)
        if row is None:
            self._end(name, finished_generation(outcome))
            return
        present = self._rows.get(name)
        if is_overtaken(self._traces[outcome.message_id], outcome):
            return
        if present is None or (row.generation, row.attempts) > (present.generation, present.attempts):
            self._rows[name] = _replacing(present, row)

    def _end(self, name: tuple[str, str], generation: int) -> None:
        row = self._rows.get(name)
        if row is not None and row.generation <= generation:
            del self._rows[name]

    def _take(self, row: Compensation, now: int, until: int, owner: str) -> Compensation:
        leased = msgspec.structs.replace(row, epoch=row.epoch + 1, lease_until=until, set_at=now, owner=owner)
        self._rows[row.message_id, row.subscription] = leased
        return leased


def _copy(trace: Trace) -> Trace:
    deliveries = {
        name: msgspec.structs.replace(delivery, attempts=dict(delivery.attempts))
        for name, delivery in trace.deliveries.items()
    }
    return msgspec.structs.replace(trace, deliveries=deliveries)


def _replacing(present: Compensation | None, row: Compensation) -> Compensation:
    """Return a row as it takes the place of another, if there is one: in the order as well, unless it has its own."""
    if present is None:
        return msgspec.structs.replace(row, epoch=0)
    key, place = (row.order_key, row.place) if row.place else (present.order_key, present.place)
    return msgspec.structs.replace(row, epoch=present.epoch, order_key=key, place=place)


def _ready_at(row: Compensation) -> int:
    return NEVER if row.place else max(row.due_at, row.lease_until)


def _fence(row: Compensation) -> tuple[int, int, int]:
    return (row.generation, row.attempts, row.epoch)


def _received_at(trace: Trace) -> int:
    return trace.message.received_at if trace.message is not None else id_time(trace.id)


async def tell_nobody(_: Sequence[Message | Outcome]) -> None:
    """Tell nobody of what the store has."""
