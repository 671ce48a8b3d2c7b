"""The lines of an exported file."""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Protocol

import msgspec

from admin.showing.masks import VisibleBody
from admin.showing.views import message_row
from bus.domain.tracing.trace import Trace

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_COLUMNS: Final = (
    "id",
    "destination",
    "biz_id",
    "key",
    "source",
    "status",
    "delivered",
    "subscriptions",
    "attempts",
    "next_attempt_at",
    "sent_at",
    "received_at",
    "completed_at",
    "bytes",
    "content_type",
    "traceparent",
)


class Writer(Protocol):
    """Writes a file of one format: its start, its rows and its end."""

    media_type: ClassVar[str]

    def head(self) -> bytes:
        """Return the start of the file before its rows."""
        ...

    def rows(self, found: Iterable[tuple[Trace, VisibleBody | None]]) -> bytes:
        """Return the rows of messages, with bodies where these are given."""
        ...

    def tail(self) -> bytes:
        """Return the end of the file after its rows, which proves to a reader that it is complete."""
        ...


class CsvWriter:
    """RFC 4180 in UTF-8 with the names of the columns first."""

    media_type: ClassVar[str] = "text/csv; charset=utf-8; header=present"

    def head(self) -> bytes:
        """Return the names of the columns."""
        return _csv([_COLUMNS])

    def rows(self, found: Iterable[tuple[Trace, VisibleBody | None]]) -> bytes:
        """Return a row for each message."""
        return _csv([[_cell(row[name]) for name in _COLUMNS] for trace, _ in found for row in [_row(trace)]])

    def tail(self) -> bytes:
        """Return nothing: a line more would be a row of the table."""
        return b""


class NdjsonWriter:
    """A JSON object a line for each message, and a last one with their count."""

    media_type: ClassVar[str] = "application/x-ndjson"

    def __init__(self) -> None:
        self._count = 0

    def head(self) -> bytes:
        """Return nothing."""
        return b""

    def rows(self, found: Iterable[tuple[Trace, VisibleBody | None]]) -> bytes:
        """Return a line for each message."""
        lines = []
        for trace, seen in found:
            line = _row(trace) | {"headers": trace.message.headers if trace.message else {}}
            line["deliveries"] = [
                {"subscription": name, "status": one.status, "attempts": one.attempts_made, "reason": one.reason}
                for name, one in sorted(trace.deliveries.items())
            ]
            lines.append(msgspec.json.encode(line | (_seen(seen) if seen is not None else {})) + b"\n")
        self._count += len(lines)
        return b"".join(lines)

    def tail(self) -> bytes:
        """Return the last line, which marks the file as complete."""
        return msgspec.json.encode({"complete": True, "count": self._count}) + b"\n"


WRITERS: Final[dict[str, type[CsvWriter | NdjsonWriter]]] = {"csv": CsvWriter, "ndjson": NdjsonWriter}


def _row(trace: Trace) -> dict[str, Any]:
    message = trace.message
    return {
        **msgspec.structs.asdict(message_row(trace)),
        "key": message.key if message else "",
        "content_type": message.content_type if message else "",
        "traceparent": message.traceparent if message else "",
    }


def _cell(value: object) -> str:
    """Return a cell's text; one that a spreadsheet would run as a formula gets an apostrophe, which it hides."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(rows: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _seen(seen: VisibleBody) -> dict[str, Any]:
    """Return the fields of a row for a body as the reader may see it."""
    shown = _body(seen.body) if seen.body is not None else {"body_withheld": str(seen.why)}
    return shown | ({"masked": True} if seen.masked else {})


def _body(body: bytes) -> dict[str, Any]:
    """Return a JSON body unchanged but on one line, and any other as base64."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"body_base64": b64encode(body).decode()}
    # In JSON a line break is white space between tokens, and never inside one.
    return {"body": msgspec.Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))}
