"""Unfinished work by due time, in ``control.db``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

import apsw
import msgspec

from bus.domain.delivery import Compensation
from bus.stores.sqlite import control_sql as sql
from bus.stores.sqlite.control import Control
from bus.stores.sqlite.keys import id_key

LaneKey = tuple[str, str]
Ending = tuple[bytes, int]  # the message's key, and the generation that is finished

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Compensation)


class Compensations:
    """The ``CompensationStore`` part; how many rows each subscription has is kept in memory."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._lanes: dict[LaneKey, int] = {}
        self._counts: dict[LaneKey, int] = {}
        self._turn: LaneKey = ("", "")
        self._load()
        control.on_commit = self._keep
        control.on_rollback = self._restore

    def _load(self) -> None:
        self._lanes = {(row[0], row[1]): row[2] for row in self._control.read(sql.LANES)}
        names = {number: lane for lane, number in self._lanes.items()}
        self._counts = {names[number]: count for number, count in self._control.read(sql.COUNT_BY_LANE)}
        self._keep()

    def _keep(self) -> None:
        self._kept = (dict(self._lanes), dict(self._counts))
        self._held = frozenset(lane for lane, count in self._counts.items() if count)

    def _restore(self) -> None:
        self._lanes, self._counts = dict(self._kept[0]), dict(self._kept[1])

    def due(self) -> dict[LaneKey, int]:
        """Return how many rows wait for each subscription."""
        return {lane: count for lane, count in self._kept[1].items() if count}

    def next_due(self) -> int | None:
        """Return when the next row can be leased."""
        earliest: int | None = self._control.read(sql.NEXT_READY)[0][0]
        return earliest

    def holding(self) -> AbstractSet[LaneKey] | None:
        """Return the subscriptions that have rows; None while a job is under way that may make some."""
        return self._held if self._control.idle else None

    async def change(self, rows: Sequence[Compensation], endings: dict[LaneKey, list[Ending]]) -> None:
        """Delete rows of finished deliveries, then insert rows where they are newer; one transaction."""
        await self._control.run(partial(self._change, rows=rows, endings=endings))

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        endings: defaultdict[LaneKey, list[Ending]] = defaultdict(list)
        for row in rows:
            endings[row.destination, row.subscription].append((id_key(row.message_id), row.generation))
        await self.change((), endings)

    async def lease(self, now: int, until: int, room: dict[LaneKey, int], limit: int, owner: str) -> list[Compensation]:
        """Take due rows, round robin over subscriptions."""
        holding = self.holding()
        if limit <= 0 or (holding is not None and holding.isdisjoint(room)):
            return []
        return await self._control.run(partial(self._lease, now=now, until=until, room=room, limit=limit, owner=owner))

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner."""
        return await self._control.run(partial(_reclaim, owner=owner))

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give rows back that no later lease has taken."""
        await self._control.run(partial(self._unlease, rows=rows))

    def rows_of(self, lane: LaneKey, limit: int) -> list[Compensation]:
        """Return some rows of a subscription."""
        number = self._lanes.get(lane)
        found = self._control.read(sql.ROWS_OF_LANE, (number, limit)) if number is not None else []
        return [_decoder.decode(rest) for (rest,) in found]

    def _change(
        self, connection: apsw.Connection, *, rows: Sequence[Compensation], endings: dict[LaneKey, list[Ending]]
    ) -> None:
        for lane, ended in endings.items():
            if self._counts.get(lane):
                number = self._lanes[lane]
                before = connection.total_changes()
                connection.executemany(sql.DELETE_COMPENSATION, [(key, number, top) for key, top in ended])
                self._counts[lane] -= connection.total_changes() - before
        for row in rows:
            self._put(connection, row)

    def _put(self, connection: apsw.Connection, row: Compensation) -> None:
        lane = (row.destination, row.subscription)
        number = self._lanes.get(lane)
        if number is None:
            number = self._lanes[lane] = next(connection.execute(sql.ADD_LANE, lane))[0]
        rest = _encoder.encode(row)
        bindings = (id_key(row.message_id), number, row.due_at, row.generation, row.attempts, rest)
        connection.execute(sql.INSERT_COMPENSATION, bindings)
        if connection.changes():
            self._counts[lane] = self._counts.get(lane, 0) + 1
        else:
            connection.execute(sql.REPLACE_COMPENSATION, bindings)

    def _lease(
        self, connection: apsw.Connection, *, now: int, until: int, room: dict[LaneKey, int], limit: int, owner: str
    ) -> list[Compensation]:
        turns = [_Turn(self._lanes[lane], lane, room[lane]) for lane in self._in_turn(room)]
        found: list[tuple[int, int, bytes]] = []
        while turns and len(found) < limit:
            share = max(1, (limit - len(found)) // len(turns))
            for turn in turns[: limit - len(found)]:
                found += turn.take(connection, now, share)
                self._turn = turn.lane
            turns = [turn for turn in turns if not turn.over]
        connection.executemany(sql.LEASE, [(until, epoch + 1, owner, row) for row, epoch, _ in found])
        return [
            msgspec.structs.replace(_decoder.decode(rest), epoch=epoch + 1, lease_until=until)
            for _, epoch, rest in found
        ]

    def _in_turn(self, room: dict[LaneKey, int]) -> list[LaneKey]:
        """Return the subscriptions that have rows and room, beginning after the one served last."""
        lanes = sorted(lane for lane, free in room.items() if free > 0 and self._counts.get(lane))
        return [lane for lane in lanes if lane > self._turn] + [lane for lane in lanes if lane <= self._turn]

    def _unlease(self, connection: apsw.Connection, *, rows: Sequence[Compensation]) -> None:
        connection.executemany(
            sql.UNLEASE,
            [
                (id_key(row.message_id), number, row.generation, row.attempts, row.epoch)
                for row in rows
                if (number := self._lanes.get((row.destination, row.subscription))) is not None
            ],
        )


def _reclaim(connection: apsw.Connection, *, owner: str) -> int:
    connection.execute(sql.RECLAIM, (owner,))
    return connection.changes()


class _Turn:
    """One subscription's part in a lease: reads its ready rows in order, a share at a time."""

    def __init__(self, number: int, lane: LaneKey, room: int) -> None:
        self.lane = lane
        self.over = False
        self._number = number
        self._room = room
        self._after = (-1, -1)

    def take(self, connection: apsw.Connection, now: int, most: int) -> list[tuple[int, int, bytes]]:
        wanted = min(most, self._room)
        rows = list(connection.execute(sql.READY_IN_LANE, (self._number, now, *self._after, wanted)))
        self._room -= len(rows)
        self.over = len(rows) < wanted or not self._room
        if rows:
            self._after = (rows[-1][3], rows[-1][0])
        return [(row, epoch, rest) for row, epoch, rest, _ in rows]
