"""The lines of ``POST /v1/messages`` that ``bus send`` makes from the lines of a file."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from bus.cli.inputs import JSON, json_fault
from bus.client.spooling.line import Line, encode_line
from bus.domain.identity import new_id
from bus.domain.json_bodies import is_json
from bus.domain.times import format_time

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL: Final = b"null"


def body_line(common: Line, raw: bytes) -> bytes | None:
    """Return a line with this body, which is JSON unless a content type is given; None for an empty line.

    Raises
    ------
    ValueError
        It is not JSON.
    """
    body = raw.strip(b"\r\n") if common.content_type else raw.strip()
    if not body:
        return None
    line = _stamped(common)
    fault = json_fault(body) if is_json(common.content_type or JSON) else None
    if fault is not None:
        raise ValueError(f"not JSON: column {fault.column}: {fault.reason}")
    if common.content_type:
        return encode_line(msgspec.structs.replace(line, body_base64=body))
    return encode_line(msgspec.structs.replace(line, content_type=JSON, body=msgspec.Raw(body)))


def envelope_line(common: Line, raw: bytes) -> bytes | None:
    """Return a line with its own fields, and those of the command line for missing ones; None for an empty line.

    Raises
    ------
    ValueError
        The line is not a JSON object, or has no destination.
    """
    text = raw.strip()
    if not text:
        return None
    try:
        given = _object.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = json_fault(text)
        where = f": column {fault.column}: {fault.reason}" if fault is not None else ""
        raise ValueError(f"not a JSON object{where}") from error
    fields: dict[str, Any] = msgspec.to_builtins(_stamped(common))
    fields |= {name: value for name, value in given.items() if name == "body" or bytes(value) != _NULL}
    if not fields["destination"]:
        raise ValueError("no destination, in the line or on the command line")
    return msgspec.json.encode(fields)


def _stamped(common: Line) -> Line:
    """Return the fields that all lines have in common with an id of its own, under which it may be repeated."""
    now = time.time_ns() // 1_000_000
    return msgspec.structs.replace(common, id=new_id(now), sent_at=format_time(now))
