"""Unfinished work by due time, in ``control.db``.

Leases are not synced: a crash of the host ends all processes that could have them. Neither is the end of a row whose
delivery is finished in its trace, which is synced, and is asked for before a row is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import apsw
import msgspec

from bus.domain.delivery.delivery import Compensation
from bus.ports.store import NEVER, DocumentWrite, KeyRows, UnfinishedRows
from bus.stores.sqlite import control_sql as sql
from bus.stores.sqlite.control import Control
from bus.stores.sqlite.documents import put_all
from bus.stores.sqlite.keys import id_key

LaneKey = tuple[str, str]
Ending = tuple[bytes, int]  # the message's key, and the generation that is finished
_Ready = tuple[int, int, bytes, int]  # a row's number, its epoch, what else it has, and when it is due
Place = tuple[int, int]  # when a row is ready, and its number
BEGINNING: Final[Place] = (-1, -1)
_FEW_READY: Final = 256

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Compensation)


class Compensations:
    """The ``CompensationStore`` part."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._waiting: dict[LaneKey, int] = {}
        self._version: int | None = None

    async def due(self) -> Mapping[LaneKey, int]:
        """Return how many rows wait for each subscription that has some, read again when the file has changed."""
        version = (await self._control.read(sql.DATA_VERSION))[0][0]
        if version != self._version:
            self._waiting = {(row[0], row[1]): row[2] for row in await self._control.read(sql.WAITING)}
            self._version = version
        return self._waiting

    async def unfinished(self, now: int) -> dict[LaneKey, UnfinishedRows]:
        """Return the rows of each subscription that has some."""
        found = await self._control.read(sql.UNFINISHED, (now, NEVER))
        return {(row[0], row[1]): UnfinishedRows(row[2], row[3], row[4]) for row in found}

    async def next_due(self) -> int | None:
        """Return the time at which the next row can be leased."""
        rows = await self._control.read(sql.NEXT_READY, (NEVER,))
        earliest: int | None = rows[0][0]
        return earliest

    async def change(
        self,
        rows: Sequence[Compensation],
        endings: dict[LaneKey, list[Ending]],
        documents: Sequence[DocumentWrite] = (),
        *,
        synced: bool = True,
    ) -> None:
        """Write documents, delete rows of finished deliveries, insert rows where they are newer; one transaction."""
        await self._control.run(partial(_change, rows=rows, endings=endings, documents=documents), synced=synced)

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        endings: defaultdict[LaneKey, list[Ending]] = defaultdict(list)
        for row in rows:
            endings[row.destination, row.subscription].append((id_key(row.message_id), row.generation))
        await self.change((), endings)

    async def ready(self, now: int) -> set[LaneKey]:
        """Return the subscriptions with rows that are ready."""
        found = await self._control.read(sql.READY_FIRST, (now, _FEW_READY))
        if len(found) == _FEW_READY:
            found = await self._control.read(sql.READY, (now,))
        return {(row[0], row[1]) for row in found}

    async def lease(
        self, now: int, until: int, room: dict[LaneKey, int], limit: int, owner: str, over: int
    ) -> list[Compensation]:
        """Take due rows, round robin over subscriptions."""
        if limit <= 0 or not room:
            return []
        leasing = partial(_lease, now=now, until=until, room=room, limit=limit, owner=owner, over=over)
        return await self._control.run(leasing, synced=False)

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner."""
        return await self._control.run(partial(_reclaim, owner=owner), synced=False)

    async def rewind(self, now: int, skew: int) -> int:
        """Keep the waits of rows that were set when the clock was ahead."""
        last: int | None = (await self._control.read(sql.LAST_SET))[0][0]
        if last is None or last <= now + skew:
            return 0
        return await self._control.run(partial(_rewind, now=now, skew=skew))

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give rows back that no later lease has taken."""
        await self._control.run(partial(_unlease, rows=rows), synced=False)

    async def ordered_keys(self, lane: LaneKey, after: str | None, limit: int) -> list[KeyRows]:
        """Return the keys with rows that keep an order."""
        return [KeyRows(*row) for row in await self._control.read(sql.ORDERED_KEYS, (*lane, after, limit))]

    async def ordered_rows(self, lane: LaneKey, order_key: str, after: int, limit: int) -> list[Compensation]:
        """Return the rows of a key behind a place, in order."""
        found = await self._control.read(sql.ORDERED_ROWS, (*lane, order_key, after, limit))
        return [
            msgspec.structs.replace(_decoder.decode(rest), order_key=order_key, place=place)
            for rest, order_key, place in found
        ]

    async def rows_of(self, lane: LaneKey, after: Place, limit: int) -> tuple[list[Compensation], Place]:
        """Return the next rows of a subscription in the order in which they are ready, and the place of the last."""
        found = await self._control.read(sql.ROWS_OF_LANE, (*lane, *after, limit))
        return [_decoder.decode(rest) for _, _, rest in found], (found[-1][0], found[-1][1]) if found else after


def _lease(
    connection: apsw.Connection, *, now: int, until: int, room: dict[LaneKey, int], limit: int, owner: str, over: int
) -> list[Compensation]:
    served: LaneKey = next(connection.execute(sql.SERVED))
    lanes = _in_turn([lane for lane, count in room.items() if count > 0], served)
    numbers = [(lane, _number(connection, lane)) for lane in lanes]
    turns = [_SubscriptionScan(number, lane, room[lane]) for lane, number in numbers if number is not None]
    found: list[_Ready] = []
    while turns and len(found) < limit:
        share = max(1, (limit - len(found)) // len(turns))
        for turn in turns[: limit - len(found)]:
            found += turn.take(connection, now, over, share)
            served = turn.lane
        turns = [turn for turn in turns if not turn.over]
    if found:
        connection.executemany(sql.LEASE, [(until, epoch + 1, owner, now, row) for row, epoch, _, _ in found])
        connection.execute(sql.SET_SERVED, served)
    return [
        msgspec.structs.replace(
            _decoder.decode(rest), due_at=due_at, epoch=epoch + 1, lease_until=until, set_at=now, owner=owner
        )
        for _, epoch, rest, due_at in found
    ]


def _in_turn(lanes: list[LaneKey], served: LaneKey) -> list[LaneKey]:
    """Return subscriptions in order, beginning after the one that any process served last."""
    lanes.sort()
    return [lane for lane in lanes if lane > served] + [lane for lane in lanes if lane <= served]


def _change(
    connection: apsw.Connection,
    *,
    rows: Sequence[Compensation],
    endings: dict[LaneKey, list[Ending]],
    documents: Sequence[DocumentWrite],
) -> None:
    put_all(connection, documents=documents)
    waiting: Counter[int] = Counter()
    for lane, ended in endings.items():
        number = _number(connection, lane)
        if number is not None:
            before = connection.total_changes()
            connection.executemany(sql.DELETE_COMPENSATION, [(key, number, top) for key, top in ended])
            waiting[number] -= connection.total_changes() - before
    numbers: dict[LaneKey, int] = {}
    for row in rows:
        lane = (row.destination, row.subscription)
        number = numbers.get(lane) or _number(connection, lane) or next(connection.execute(sql.ADD_LANE, lane))[0]
        numbers[lane] = number
        waiting[number] += _put(connection, row, number)
    connection.executemany(sql.ADD_WAITING, [(more, number) for number, more in waiting.items() if more])


def _number(connection: apsw.Connection, lane: LaneKey) -> int | None:
    row = connection.execute(sql.NUMBER_OF_LANE, lane).fetchone()
    return row[0] if row else None


def _put(connection: apsw.Connection, row: Compensation, number: int) -> int:
    """Insert a row, or replace the present one by a newer; return how many rows were added: 1 or 0."""
    rest = _encoder.encode(row)
    due_at = NEVER if row.place else row.due_at
    bindings = (
        *(id_key(row.message_id), number, due_at, row.generation, row.attempts, rest, row.set_at),
        *(row.order_key, row.place, row.lease_until, row.owner),
    )
    connection.execute(sql.INSERT_COMPENSATION, bindings)
    if connection.changes():
        return 1
    connection.execute(sql.REPLACE_COMPENSATION, bindings)
    return 0


def _unlease(connection: apsw.Connection, *, rows: Sequence[Compensation]) -> None:
    numbers = {lane: _number(connection, lane) for lane in {(row.destination, row.subscription) for row in rows}}
    connection.executemany(
        sql.UNLEASE,
        [
            (id_key(row.message_id), number, row.generation, row.attempts, row.epoch)
            for row in rows
            if (number := numbers[row.destination, row.subscription]) is not None
        ],
    )


def _reclaim(connection: apsw.Connection, *, owner: str) -> int:
    connection.execute(sql.RECLAIM, (owner,))
    return connection.changes()


def _rewind(connection: apsw.Connection, *, now: int, skew: int) -> int:
    connection.execute(sql.REWIND, (now, now + skew))
    return connection.changes()


class _SubscriptionScan:
    """One subscription's part in a lease: reads its ready rows in order, a share at a time."""

    def __init__(self, number: int, lane: LaneKey, room: int) -> None:
        self.lane = lane
        self.over = False
        self._number = number
        self._room = room
        self._after = BEGINNING

    def take(self, connection: apsw.Connection, now: int, over: int, most: int) -> list[_Ready]:
        wanted = min(most, self._room)
        rows = list(connection.execute(sql.READY_IN_LANE, (self._number, now, *self._after, wanted, over)))
        self._room -= len(rows)
        self.over = len(rows) < wanted or not self._room
        if rows:
            self._after = (rows[-1][4], rows[-1][0])
        return [(row, epoch, rest, due_at) for row, epoch, rest, due_at, _ in rows]
