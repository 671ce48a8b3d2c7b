"""``bus pipeline find``."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator
from typing import Any, Final

from bus.cli.options import Output
from bus.cli.output import print_fields, print_json
from bus.cli.tables import Table
from bus.domain.identity import id_time, parse_id
from bus.errors import ConfigurationError
from pipeline.commands.looking import lake_with
from pipeline.errors import JobFailed
from pipeline.jobs import archive
from pipeline.lake.lake import Lake
from pipeline.schemas import MESSAGES

_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_COLUMNS: Final = ("subscription", "status", "at", "attempts_made", "reason")


def run(root: str, message_id: str, *, output: Output) -> None:
    """Print a message of the archive with its body and what became of it; no Spark is started.

    Raises
    ------
    ConfigurationError
        The id is none, or the lake has no archive.
    JobFailed
        The archive does not have the message.
    """
    table = output.table(*_COLUMNS)
    try:
        wanted = parse_id(message_id)
    except ValueError as error:
        raise ConfigurationError(f"{message_id[:64]!r} is no id of a message", hint="bus search lists ids") from error
    found = [_plain(row) for row in _rows(lake_with(root, MESSAGES), wanted)]
    if not found:
        raise JobFailed(f"the archive in {root} does not have message {wanted}", hint=f"bus trace {wanted}")
    if output.as_json:
        print_json({"items": found})
        return
    for row in found:
        _show(row, table)


def _rows(lake: Lake, message_id: str) -> Iterator[dict[str, Any]]:
    """Give what the archive has of a message: two rows of one that came again after its day was dropped."""
    at = dt.datetime.fromtimestamp(0, dt.UTC) + id_time(message_id) * _MILLISECOND
    for file in lake.files(MESSAGES, line=archive.LINE, since=at, before=at + _MILLISECOND):
        yield from (row for row in lake.storage.rows(file.path) if row["id"] == message_id)


def _show(row: dict[str, Any], table: Table) -> None:
    print_fields({name: value for name, value in row.items() if value and name not in ("deliveries", "body")})
    table.show(row["deliveries"] or ())
    print_fields({"body": row["body"]})


def _plain(value: Any) -> Any:
    """Return a row as JSON has it: times as RFC 3339; bytes as text, or in base64 where they are none."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _text(value) if isinstance(value, bytes) else value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
