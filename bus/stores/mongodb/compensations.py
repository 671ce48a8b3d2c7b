"""Unfinished work by due time, one document for each message and subscription."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import msgspec
from bson import ObjectId
from msgspec import structs
from pymongo import DeleteMany, DeleteOne, UpdateOne

from bus.domain.delivery.delivery import Compensation, rewound
from bus.ports.store import NEVER, KeyRows, UnfinishedRows
from bus.stores.mongodb.bodies import Bodies, Reference, reference_of
from bus.stores.mongodb.connection import Collection, Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.forms import DamagedDocument, damaged
from bus.stores.mongodb.indexes import COMPENSATIONS
from bus.stores.mongodb.inserting import MOST_BYTES, insert_new, slices
from bus.stores.mongodb.names import label_of, lane_name, lane_of

LaneKey = tuple[str, str]
Ending = tuple[str, str, int]  # the message's id, the subscription, and the generation that is finished

_FIELDS: Final = tuple(name for name in Compensation.__struct_fields__ if name not in {"message", "by"})
_BARE: Final = tuple(name for name in Compensation.__struct_fields__ if name != "message")
_FEW_READY: Final = 256
_AT_ONCE: Final = 16
_ADDED: Final = {"set_at": 0, "order_key": "", "place": 0, "owner": ""}  # what rows of earlier versions have not
_ORDER: Final = frozenset({"order_key", "place", "ready_at"})
_KEPT: Final = frozenset({"_id", "epoch"})  # what a newer row of the same delivery takes over


class Compensations:
    """The ``CompensationStore`` part.

    ``order`` is (generation, attempts) as one number, ``ready_at`` when a row can be leased, and ``claim`` names the
    call that leased it last.
    """

    def __init__(self, connection: Connection, bodies: Bodies, damaged: DamagedDocuments) -> None:
        self._connection = connection
        self._damaged = damaged
        self._bodies = bodies
        self._leasing = asyncio.Lock()
        self._turn: LaneKey = ("", "")

    @property
    def _rows(self) -> Collection:
        return self._connection[COMPENSATIONS]

    async def change(self, rows: Sequence[Compensation], endings: Iterable[Ending]) -> None:
        """Delete the rows of finished deliveries, then insert rows where they are newer; durable when it returns."""
        await self._end(endings)
        await self._put(rows)

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        await self._end((row.message_id, row.subscription, row.generation) for row in rows)

    async def ready(self, now: int) -> set[LaneKey]:
        """Return the subscriptions with rows that are ready; when those are many, all with rows, which costs less."""
        ready = {"ready_at": {"$lte": now}}
        forms = await self._connection.find(
            COMPENSATIONS, ready, fields=["lane"], sort=[("ready_at", 1)], limit=_FEW_READY
        )
        names: Sequence[object] = [form.get("lane") for form in forms]
        if len(forms) == _FEW_READY:
            # No ``distinct``, as FerretDB refuses its deadline.
            groups = await self._connection.aggregate(COMPENSATIONS, [{"$group": {"_id": "$lane"}}])
            names = [group["_id"] for group in groups]
        return {lane_of(name) for name in names if isinstance(name, str)}

    async def lease(
        self, now: int, until: int, room: dict[LaneKey, int], limit: int, owner: str, over: int
    ) -> list[Compensation]:
        """Take due rows, round robin over subscriptions.

        Rows are read, then claimed where no other process changed them since; further rows make up for those that other
        processes claimed first.
        """
        free = {lane: count for lane, count in room.items() if count > 0}
        leased: list[Form] = []
        async with self._leasing:
            while free and len(leased) < limit:
                wanted = limit - len(leased)
                candidates = await self._candidates(now, over, free, wanted)
                taken = await self._claim(candidates, now, until, owner)
                leased += taken
                if len(taken) == len(candidates) < wanted:
                    break
                for form in taken:
                    free[lane_of(form["lane"])] -= 1
                free = {lane: count for lane, count in free.items() if count > 0}
        return await self._read(leased)

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner."""
        ended = 0
        leased = {"owner": owner, "lease_until": {"$gt": 0}}
        held = await self._connection.find(COMPENSATIONS, leased, fields=["order", "epoch", "due_at"])
        for piece in slices(held):
            ended += await self._update([_give_back(form) for form in piece])
        return ended

    async def rewind(self, now: int, skew: int) -> int:
        """Keep the waits of rows that were set when the clock was ahead."""
        ahead = {"set_at": {"$gt": now + skew}}
        changed = 0
        for piece in slices(await self._connection.find(COMPENSATIONS, ahead, fields=(*_BARE, "order"))):
            rows = [(form, row) for form in piece for row in await self._rows_in([form])]
            changed += await self._update([_rewind(form, row, now) for form, row in rows]) if rows else 0
        return changed

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give rows back that no later lease has taken."""
        for piece in slices(rows):
            await self._update([_give_back(_fence(row)) for row in piece])

    async def due(self) -> dict[LaneKey, int]:
        """Return how many rows each subscription has."""
        return await self._count({})

    async def unfinished(self, now: int) -> dict[LaneKey, UnfinishedRows]:
        """Return the rows of each subscription that has some."""
        rows, due = await self._count({"ready_at": {"$gte": 0}}), await self._count({"ready_at": {"$lte": now}})
        found: dict[LaneKey, UnfinishedRows] = {}
        for lane, count in rows.items():
            # Each is one look into the index; an accumulator for the least would look at all.
            next_at = await self._first({"lane": lane_name(*lane)})
            found[lane] = UnfinishedRows(count, due.get(lane, 0), next_at)
        return found

    async def _count(self, condition: Form) -> dict[LaneKey, int]:
        """Count rows by subscription, from an index alone, as long as the condition is one of its fields."""
        # Without a condition for the subscription the server would read every row with its message.
        match: Form = {"$match": {"lane": {"$gte": ""}, **condition}}
        counted: Form = {"$group": {"_id": "$lane", "rows": {"$sum": 1}}}
        groups = await self._connection.aggregate(COMPENSATIONS, [match, counted])
        return {lane_of(group["_id"]): int(group["rows"]) for group in groups}

    async def _first(self, condition: Form) -> int | None:
        """Return the time at which the first of the rows that meet a condition can be leased."""
        wanted = {"ready_at": {"$gte": 0, "$lt": NEVER}, **condition}
        first = await self._connection.find(COMPENSATIONS, wanted, fields=["ready_at"], sort=[("ready_at", 1)], limit=1)
        return int(first[0]["ready_at"]) if first else None

    async def next_due(self) -> int | None:
        """Return the time at which the next row can be leased."""
        return await self._first({})

    async def ordered_keys(self, lane: LaneKey, after: str | None, limit: int) -> list[KeyRows]:
        """Return the keys with rows that keep an order."""
        wanted: Form = {"lane": lane_name(*lane), "place": {"$gt": 0}}
        if after is not None:
            wanted["order_key"] = {"$gt": after}
        group: Form = {"_id": "$order_key", "rows": {"$sum": 1}}
        stages: list[Form] = [{"$match": wanted}, {"$group": group}, {"$sort": {"_id": 1}}, {"$limit": limit}]
        groups = await self._connection.aggregate(COMPENSATIONS, stages)
        found: list[KeyRows] = []
        for piece in slices(groups, most=_AT_ONCE):
            last = await asyncio.gather(*(self._last_place(lane, each["_id"]) for each in piece))
            found += [KeyRows(each["_id"], int(each["rows"]), place) for each, place in zip(piece, last, strict=True)]
        return found

    async def _last_place(self, lane: LaneKey, order_key: str) -> int:
        """Return the greatest place of a key, by one look into the index; an accumulator would look at all rows."""
        wanted: Form = {"lane": lane_name(*lane), "order_key": order_key, "place": {"$gt": 0}}
        last = await self._connection.find(
            COMPENSATIONS, wanted, fields=["place"], sort=[("order_key", -1), ("place", -1)], limit=1
        )
        return int(last[0]["place"]) if last else 0

    async def ordered_rows(self, lane: LaneKey, order_key: str, after: int, limit: int) -> list[Compensation]:
        """Return the rows of a key behind a place, in order."""
        wanted: Form = {"lane": lane_name(*lane), "order_key": order_key, "place": {"$gt": max(after, 0)}}
        return await self._read(await self._connection.find(COMPENSATIONS, wanted, sort=[("place", 1)], limit=limit))

    async def rows_of(self, lane: LaneKey, limit: int) -> AsyncIterator[list[Compensation]]:
        """Give the rows of a subscription, so many at a time, without what they carry."""
        after = ""
        while True:
            rest = {"lane": lane_name(*lane), "_id": {"$gt": after}}
            forms = await self._connection.find(COMPENSATIONS, rest, fields=_BARE, sort=[("_id", 1)], limit=limit)
            if not forms:
                return
            yield await self._rows_in(forms)
            after = forms[-1]["_id"]

    async def whole(self, rows: Sequence[Compensation]) -> list[Compensation]:
        """Return rows as they are now, with what they carry; those that are gone are left out."""
        names = [_name(row.message_id, row.subscription) for row in rows]
        return await self._read(await self._connection.find(COMPENSATIONS, {"_id": {"$in": names}}))

    async def _end(self, endings: Iterable[Ending]) -> None:
        names: defaultdict[int, list[str]] = defaultdict(list)
        for message_id, subscription, generation in endings:
            names[generation].append(_name(message_id, subscription))
        for generation, ended in names.items():
            for piece in slices(ended):
                await self._remove([DeleteMany({"_id": {"$in": piece}, "generation": {"$lte": generation}})])

    async def _put(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one that is there already is replaced where it is older.

        A row that goes between the two steps, because another process finished an older generation, is inserted again.
        """
        await self._put_large(rows)
        forms: dict[str, Form] = {}
        for form in sorted(map(_form, rows), key=lambda form: form["order"], reverse=True):
            forms.setdefault(form["_id"], form)
        while forms:
            present = await insert_new(self._connection, COMPENSATIONS, list(forms.values()), _size)
            gone: set[str] = set()
            for piece in slices([forms[name] for name in sorted(present)], _size):
                if await self._update([update for form in piece for update in _replace(form)]) < len(piece):
                    gone |= await self._gone([form["_id"] for form in piece])
            forms = {name: forms[name] for name in gone}

    async def _put_large(self, rows: Sequence[Compensation]) -> None:
        for row in rows:
            if len(row.message) > MOST_BYTES:
                await self._bodies.put(label_of(row.message_id, row.retention_days), [(row.message_id, row.message)])

    async def _gone(self, names: list[str]) -> set[str]:
        forms = await self._connection.find(COMPENSATIONS, {"_id": {"$in": names}}, fields=["_id"])
        return set(names) - {form["_id"] for form in forms}

    async def _update(self, updates: list[UpdateOne]) -> int:
        """Run conditional updates and return how many found their row."""
        done = await self._connection.exchange(
            f"update {COMPENSATIONS}", lambda: self._rows.bulk_write(updates, ordered=False)
        )
        return done.matched_count

    async def _remove(self, removals: list[DeleteMany | DeleteOne]) -> None:
        await self._connection.exchange(
            f"remove from {COMPENSATIONS}", lambda: self._rows.bulk_write(removals, ordered=False)
        )

    async def _candidates(self, now: int, over: int, room: dict[LaneKey, int], limit: int) -> list[Form]:
        """Return rows that are ready, without what they carry, one of each subscription in turn."""
        queues: list[tuple[LaneKey, list[Form]]] = []
        for lane in self._in_turn(room):
            if len(queues) == limit:
                break
            most = min(room[lane], limit)
            ready: Form = {"lane": lane_name(*lane), "ready_at": {"$lte": now}}
            if over < now:
                ready["lease_until"] = {"$lte": over}
            forms = await self._connection.find(
                COMPENSATIONS,
                ready,
                fields=["lane", "order", "epoch"],
                sort=[("ready_at", 1), ("_id", 1)],
                limit=most,
            )
            if forms:
                queues.append((lane, forms))
        return self._deal(queues, limit)

    def _in_turn(self, lanes: Iterable[LaneKey]) -> list[LaneKey]:
        """Return subscriptions beginning after the one served last."""
        return sorted(lanes, key=lambda lane: (lane <= self._turn, lane))

    def _deal(self, queues: list[tuple[LaneKey, list[Form]]], limit: int) -> list[Form]:
        dealt: list[Form] = []
        place = 0
        while len(dealt) < limit and (queues := [(lane, forms) for lane, forms in queues if place < len(forms)]):
            for lane, forms in queues[: limit - len(dealt)]:
                dealt.append(forms[place])
                self._turn = lane
            place += 1
        return dealt

    async def _claim(self, candidates: Sequence[Form], now: int, until: int, owner: str) -> list[Form]:
        """Lease those rows that no other process changed since they were read; return them in their present state."""
        claimed: list[Form] = []
        for piece in slices(candidates):
            claim = str(ObjectId())
            lease: Form = {"lease_until": until, "ready_at": until, "set_at": now, "owner": owner, "claim": claim}
            await self._update([UpdateOne(_unchanged(form), {"$set": lease | _next_epoch(form)}) for form in piece])
            names = [form["_id"] for form in piece]
            found = await self._connection.find(COMPENSATIONS, {"_id": {"$in": names}, "claim": claim})
            place = {name: number for number, name in enumerate(names)}
            claimed += sorted(found, key=lambda form: place[form["_id"]])
        return claimed

    async def _read(self, forms: Sequence[Form]) -> list[Compensation]:
        """Return rows with the messages they carry; one that cannot be read is set aside."""
        rows: list[Compensation] = []
        for form in forms:
            for row in await self._rows_in([form]):
                if not form["message_ref"]:
                    rows.append(row)
                    continue
                reference = Reference(row.message_id, form["message_ref"], form["message_bytes"])
                (message,) = await self._bodies.get(label_of(row.message_id, row.retention_days), [reference])
                if isinstance(message, DamagedDocument):
                    await self._set_aside(form, message)
                else:
                    rows.append(structs.replace(row, message=message))
        return rows

    async def _rows_in(self, forms: Sequence[Form]) -> list[Compensation]:
        rows: list[Compensation] = []
        for form in forms:
            try:
                rows.append(_row(form))
            except DamagedDocument as error:
                await self._set_aside(form, error)
        return rows

    async def _set_aside(self, form: Form, error: DamagedDocument) -> None:
        for whole in await self._connection.find(COMPENSATIONS, {"_id": form["_id"]}):
            await self._damaged.set_aside(COMPENSATIONS, whole, error)
            await self._remove([DeleteOne({"_id": whole["_id"], "order": {"$eq": whole.get("order")}})])


def _name(message_id: str, subscription: str) -> str:
    return f"{message_id}/{subscription}"


def _order(generation: int, attempts: int) -> int:
    return generation << 32 | attempts


def _form(row: Compensation) -> Form:
    large = len(row.message) > MOST_BYTES
    form: Form = {name: getattr(row, name) for name in _FIELDS}
    return form | {
        "_id": _name(row.message_id, row.subscription),
        "lane": lane_name(row.destination, row.subscription),
        "by": row.by.value,
        "order": _order(row.generation, row.attempts),
        "message": b"" if large else row.message,
        "message_ref": reference_of(row.message_id, row.message).name if large else "",
        "message_bytes": len(row.message),
        "epoch": 0,
        "ready_at": NEVER if row.place else max(row.due_at, row.lease_until),
        "claim": "",
    }


def _row(form: Form) -> Compensation:
    given = {"message": b"", **_ADDED} | form
    try:
        if "message" in form:
            msgspec.convert([given["message_ref"], given["message_bytes"]], tuple[str, int])
        return msgspec.convert([given[name] for name in Compensation.__struct_fields__], Compensation)
    except (KeyError, msgspec.ValidationError) as error:
        raise damaged(error) from error


def _fence(row: Compensation) -> Form:
    return {
        "_id": _name(row.message_id, row.subscription),
        "order": _order(row.generation, row.attempts),
        "epoch": row.epoch,
        "due_at": row.due_at,
    }


def _size(form: Form) -> int:
    return len(form["message"])


def _unchanged(form: Form) -> dict[str, Any]:
    """Return the condition that a row was not replaced or leased since; a foreign row may lack these fields."""
    return {"_id": form["_id"], "order": {"$eq": form.get("order")}, "epoch": {"$eq": form.get("epoch")}}


def _next_epoch(form: Form) -> Form:
    epoch = form.get("epoch")
    return {"epoch": epoch + 1 if isinstance(epoch, int) else 1}


def _give_back(form: Form) -> UpdateOne:
    return UpdateOne(_unchanged(form), {"$set": {"lease_until": 0, "ready_at": form.get("due_at", 0)}})


def _rewind(form: Form, row: Compensation, now: int) -> UpdateOne:
    set_again = rewound(row, now)
    times = {name: getattr(set_again, name) for name in ("due_at", "lease_until", "set_at")}
    ready_at = NEVER if row.place else max(set_again.due_at, set_again.lease_until)
    as_read = {name: {"$eq": form.get(name)} for name in ("set_at", "lease_until")}  # a lease may have been ended since
    return UpdateOne(_unchanged(form) | as_read, {"$set": times | {"ready_at": ready_at}})


def _replace(form: Form) -> list[UpdateOne]:
    """Return the updates of which one replaces an older row; what keeps an order keeps its place in it."""
    older: Form = {"_id": form["_id"], "order": {"$lt": form["order"]}}
    changes = {name: value for name, value in form.items() if name not in _KEPT}
    if form["place"]:
        return [UpdateOne(older, {"$set": changes})]
    kept = {name: value for name, value in changes.items() if name not in _ORDER}
    is_ordered = {"place": {"$gt": 0}}
    return [
        UpdateOne(older | is_ordered, {"$set": kept}),
        UpdateOne(older | {"place": {"$not": is_ordered["place"]}}, {"$set": changes}),
    ]
