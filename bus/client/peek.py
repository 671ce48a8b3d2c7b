"""Looking into a spool without taking it: a second, read-only connection beside whoever owns it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import apsw
import msgspec

from bus.client.courier import REJECTED, decode_rejected
from bus.client.line import decode_line
from bus.domain.message import decode_message
from bus.domain.times import format_time
from bus.errors import SpoolFailed
from bus.spool.file import NAME
from bus.spool.record import LANE_SHIFT, SEQUENCE_MASK

_BUSY: Final = 2000
_DEPTH: Final = 2


class LaneCount(NamedTuple):
    """What is in a lane; ``oldest`` is RFC 3339."""

    lane: str
    records: int
    bytes: int
    oldest: str | None


class Peek:
    """A read-only view of one spool directory; a context manager.

    Raises
    ------
    SpoolFailed
        The file is not there or cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            self._db = apsw.Connection(str(directory / NAME), flags=apsw.SQLITE_OPEN_READONLY)
            self._db.set_busy_timeout(_BUSY)
            self._numbers: dict[str, int] = {
                str(name): int(str(no)) for no, name in self._db.execute("SELECT no, name FROM lane ORDER BY no")
            }
        except apsw.Error as error:
            raise SpoolFailed(f"{directory / NAME} cannot be read: {error}", hint="is it a spool directory?") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def lanes(self) -> list[LaneCount]:
        """Return every lane that has records."""
        counted = (self._count(name) for name in self._numbers)
        return [lane for lane in counted if lane.records]

    def _count(self, name: str) -> LaneCount:
        query = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM record WHERE position BETWEEN ? AND ?"
        records, size = self._rows(query, self._range(name))[0]
        first = self._rows("SELECT time FROM record WHERE position BETWEEN ? AND ? LIMIT 1", self._range(name))
        return LaneCount(name, records, size, format_time(first[0][0]) if first else None)

    def damaged(self) -> int:
        """Return how many records were set aside."""
        return int(self._rows("SELECT coalesce(sum(records), 0) FROM quarantine", ())[0][0])

    def records(self, lane: str, limit: int) -> Iterator[dict[str, Any]]:
        """Yield the oldest records of a lane, as far as their payload can be read."""
        query = "SELECT time, payload FROM record WHERE position BETWEEN ? AND ? LIMIT ?"
        for time, payload in self._rows(query, (*self._range(lane), limit)):
            yield {"lane": lane, "time": format_time(time), **_described(lane, payload)}

    def _range(self, lane: str) -> tuple[int, int]:
        start = self._numbers[lane] << LANE_SHIFT
        return start, start | SEQUENCE_MASK

    def _rows(self, query: str, values: tuple[int, ...]) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except apsw.Error as error:
            raise SpoolFailed(f"{self._directory / NAME} cannot be read: {error}") from error


def _described(lane: str, payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        if lane == REJECTED:
            rejected = decode_rejected(payload)
            found = {"reason": rejected.reason, "status": rejected.status, "rejected_at": format_time(rejected.at)}
            payload = rejected.line
        line = decode_line(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {**found, **_message(payload)}
    return {"id": line.id, "destination": line.destination, "biz_id": line.biz_id, "bytes": len(line.content), **found}


def _message(payload: bytes) -> dict[str, Any]:
    try:
        message = decode_message(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"bytes": len(payload)}
    return {
        "id": message.id,
        "destination": message.destination,
        "biz_id": message.biz_id,
        "bytes": len(message.body),
    }


def spools_under(directory: Path) -> list[Path]:
    """Return the spool directories at a place or up to two levels below it."""
    patterns = ("/".join(["*"] * depth + [NAME]) for depth in range(_DEPTH + 1))
    return sorted({found.parent for pattern in patterns for found in directory.glob(pattern)})
