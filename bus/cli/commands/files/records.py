"""Records of any spool for people: a line of a producer, a rejected one, or a message inside the bus."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.client.spooling.lanes import REJECTED, decode_rejected
from bus.client.spooling.line import decode_line
from bus.domain.message import decode_message
from bus.domain.times import format_time
from bus.ports.spool import Record


def describe(record: Record) -> dict[str, Any]:
    """Return the readable fields of a record; at least its stream (``lane``), time and bytes."""
    place = {"lane": record.lane, "time": format_time(record.time)}
    if record.lane != REJECTED:
        return place | _line(record.payload)
    try:
        rejected = decode_rejected(record.payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return place | _line(record.payload)
    said = {"reason": rejected.reason, "status": rejected.status, "rejected_at": format_time(rejected.at)}
    return place | _line(rejected.line) | said


def _line(payload: bytes) -> dict[str, Any]:
    try:
        line = decode_line(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _message(payload)
    return {"id": line.id, "destination": line.destination, "biz_id": line.biz_id, "bytes": len(line.content)}


def _message(payload: bytes) -> dict[str, Any]:
    try:
        found = decode_message(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"bytes": len(payload)}
    return {"id": found.id, "destination": found.destination, "biz_id": found.biz_id, "bytes": len(found.body)}
