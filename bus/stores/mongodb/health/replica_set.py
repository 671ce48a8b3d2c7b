"""The members of a replica set, and the time that its oplog covers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bson.timestamp import Timestamp
from pymongo import AsyncMongoClient

from bus.domain.health.vitals import ReplicaFigures, StoreFigures
from bus.errors import StoreError, StoreUnavailable
from bus.stores.mongodb.connection import Connection, Form

_log = logging.getLogger(__name__)
_MOST_MEMBERS: Final = 50  # as many as a set can have
_LOCAL: Final = "local"
_OPLOG: Final = "oplog.rs"
_PRIMARY: Final = "PRIMARY"


async def read_health(connection: Connection) -> StoreFigures:
    """Return the health that the server reports; fields that it does not have or show to this login are left out.

    Raises
    ------
    StoreUnavailable
        It does not answer.
    """
    client = connection.database.client
    try:
        status = await connection.exchange(
            "read the state of the replica set", lambda: client.admin.command("replSetGetStatus")
        )
        members = members_of(status)
    except StoreUnavailable:
        raise
    except StoreError as error:
        _log.debug("the state of the replica set is not known: %s", error)
        return StoreFigures()
    try:
        return await connection.exchange("read the oplog", lambda: _with_oplog(client, members))
    except StoreUnavailable:
        raise
    except StoreError as error:
        _log.debug("how far the oplog goes back is not known: %s", error)
        return StoreFigures(members=members)


async def _with_oplog(client: AsyncMongoClient[Form], members: tuple[ReplicaFigures, ...]) -> StoreFigures:
    oplog = client[_LOCAL][_OPLOG]
    first, last = [await oplog.find_one({}, {"ts": 1}, sort=[("$natural", way)]) for way in (1, -1)]
    size = await client[_LOCAL].command("collStats", _OPLOG)
    return StoreFigures(members=members, oplog=window_of(first, last), oplog_used=used_of(size))


def members_of(status: Mapping[str, Any]) -> tuple[ReplicaFigures, ...]:
    """Return the members in an answer to ``replSetGetStatus``; ``behind`` is how far each is behind the primary."""
    told: Sequence[Mapping[str, Any]] = status.get("members", ())[:_MOST_MEMBERS]
    newest = next((one.get("optimeDate") for one in told if one.get("stateStr") == _PRIMARY), None)
    return tuple(
        ReplicaFigures(
            name=str(one.get("name", "")),
            state=str(one.get("stateStr", "")),
            behind=_behind(one.get("optimeDate"), newest) if one.get("stateStr") == "SECONDARY" else 0,
        )
        for one in told
    )


def _behind(own: object, newest: object) -> int:
    if not isinstance(own, datetime) or not isinstance(newest, datetime):
        return 0
    return max(0, round((newest - own).total_seconds() * 1000))


def window_of(first: Mapping[str, Any] | None, last: Mapping[str, Any] | None) -> int | None:
    """Return the milliseconds from the first to the last entry of an oplog; None where that is not known."""
    begun, ended = (first or {}).get("ts"), (last or {}).get("ts")
    if not isinstance(begun, Timestamp) or not isinstance(ended, Timestamp):
        return None
    return max(0, (ended.time - begun.time) * 1000)


def used_of(size: Mapping[str, Any]) -> float:
    """Return the share of an oplog that is in use; one that is not full yet goes back as far as the set does."""
    most = size.get("maxSize")
    return float(size.get("size", 0)) / most if isinstance(most, int | float) and most > 0 else 0.0
