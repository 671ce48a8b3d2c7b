"""``bus search`` and ``bus export``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import msgspec
import typer

from bus.cli.api import Api, cut_off
from bus.cli.commands.configuring import exported
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server, read_time
from bus.cli.output import counted, print_json, progress
from bus.errors import ConfigurationError

_PAGE: Final = 500
_LAST_LINE: Final = 256
_COLUMNS: Final = (
    "id",
    "destination",
    "status",
    "biz_id",
    "source",
    "received_at",
    "completed_at",
    "bytes",
    "delivered",
    "subscriptions",
    "attempts",
    "next_attempt_at",
)
_NAMES: Final = {"since": "from", "before": "to", "body_text": "text", "text": "q"}
Format = Literal["csv", "ndjson"]
What = Literal["messages", "configuration"]


@dataclass(frozen=True)
class Conditions:
    """Selects messages; all given options must match."""

    ref: Annotated[str | None, typer.Option(help="Any exact id: of message or trace, biz id, key.")] = None
    destination: Annotated[str | None, typer.Option(help="Destination code.")] = None
    subscription: Annotated[
        str | None, typer.Option(help="Subscription name; --status then applies to its deliveries.")
    ] = None
    biz_id: Annotated[str | None, typer.Option(help="Business id that the producer set.")] = None
    source: Annotated[str | None, typer.Option(help="Name of the producer.")] = None
    status: Annotated[str | None, typer.Option(help="Status, such as delivered, retrying, dead or pending.")] = None
    since: Annotated[
        str | None, typer.Option("--from", help="Start: RFC 3339, or a duration before now such as 15m.")
    ] = None
    before: Annotated[str | None, typer.Option("--to", help="End: RFC 3339, or a duration before now.")] = None
    signature: Annotated[str | None, typer.Option(help="Failure signature, see bus failures.")] = None
    status_class: Annotated[
        str | None, typer.Option(help="Result of the last attempt: 2xx, 3xx, 4xx, 5xx, or none for no response.")
    ] = None
    error: Annotated[str | None, typer.Option(help="Text in the error of a delivery that has not succeeded.")] = None
    header: Annotated[str | None, typer.Option(help="Header of the message: NAME or 'NAME: VALUE'.")] = None
    body_path: Annotated[str | None, typer.Option(help="Path in the JSON body, such as order.lines[0].sku.")] = None
    body_value: Annotated[str | None, typer.Option(help="Value at --body-path.")] = None
    body_text: Annotated[str | None, typer.Option(help="Text in the body.")] = None
    text: Annotated[str | None, typer.Option("--text", "--q", help="Text in id, biz id or source.")] = None

    def query(self) -> dict[str, str | None]:
        """Return the options under the names of the API."""
        named = {_NAMES.get(name, name): value for name, value in asdict(self).items()}
        return named | {"from": read_time(self.since, "--from"), "to": read_time(self.before, "--to")}


@grouped
def search(
    conditions: Conditions,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of messages.")] = 50,
    *,
    output: Output,
    server: Server,
) -> None:
    """Search messages, newest first."""
    table = output.table(*_COLUMNS)
    with server.api() as api:
        found = _pages(api, conditions.query(), limit)
    if output.as_json:
        print_json(found)
        return
    table.show(found["items"])
    if not found["items"]:
        sys.stderr.write("no messages found\n")
    searched = found["searched"]
    if searched and not searched["complete"]:
        sys.stderr.write(f"searched back to {searched['from']}; older messages may match: raise --limit or give --to\n")
    if searched.get("archived"):
        sys.stderr.write(_archived_line(searched["archived"]) + "\n")


def _pages(api: Api, query: dict[str, str | None], limit: int) -> dict[str, Any]:
    """Return the items of all pages, up to a limit, and the times that were searched."""
    items: list[dict[str, Any]] = []
    searched: dict[str, Any] = {}
    archived: dict[str, dict[str, Any]] = {}
    cursor: str | None = None
    while True:
        most = min(_PAGE, limit - len(items))
        page = api.call("GET", "/api/v1/messages", query={**query, "cursor": cursor, "limit": most})
        items += page["items"]
        cursor = page["next"]
        searched = {**page.get("searched", {}), **({"to": searched["to"]} if searched else {})}
        archived |= {day["partition"]: day for day in searched.get("archived", [])}
        if cursor is None or len(items) >= limit:
            if archived:
                searched |= {"archived": [archived[name] for name in sorted(archived)]}
            return {"items": items, "next": cursor, "searched": searched}


def _archived_line(archived: list[dict[str, Any]]) -> str:
    """Return a line that names the days which were not searched, and the command that reads them."""
    first, last = archived[0]["partition"], archived[-1]["partition"]
    days = first if first == last else f"{first} to {last}"
    lake = archived[-1]["lake"] or "LAKE"
    return f"archived days were not searched: {days}; find a message there with: bus pipeline find ID --lake {lake}"


@grouped
def export(
    conditions: Conditions,
    what: Annotated[
        What, typer.Argument(metavar="[configuration]", help="Write the configuration instead of messages.")
    ] = "messages",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|-", help="File to write, or - for standard output.")
    ] = "-",
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Format.  [default: csv for a FILE.csv, else ndjson]", show_default=False),
    ] = None,
    bodies: Annotated[
        bool, typer.Option("--bodies", help="Include bodies; ndjson only, recorded in the audit log.")
    ] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Write matching messages, or the configuration, to a file.

    The file gets its name when it is complete. ``bus export configuration`` writes destinations and subscriptions, for
    ``bus apply``.
    """
    if what == "configuration":
        content = exported(server)
        with _opened(output) as stream:
            stream.write(content)
        return
    query = {
        **conditions.query(),
        "format": form or ("csv" if output.lower().endswith(".csv") else "ndjson"),
        "bodies": str(bodies).lower(),
    }
    if as_json and output == "-":
        raise typer.BadParameter("the messages are on standard output; give -o FILE", param_hint="--json")
    with server.api() as api, _opened(output) as stream:
        done = _copy(api, query, stream)
    if as_json:
        print_json({"file": output, **done})
    elif output != "-":
        count = f"{counted(done['count'], 'message', 'messages')}, " if done["count"] is not None else ""
        typer.echo(f"{output}: {count}{done['bytes']} bytes")


@contextmanager
def _opened(output: str) -> Iterator[BinaryIO]:
    """Open the output; a file ends in ``.part`` until it is complete."""
    if output == "-":
        yield sys.stdout.buffer
        return
    whole, part = Path(output), Path(f"{output}.part")
    try:
        stream = part.open("wb")
    except OSError as error:
        raise ConfigurationError(f"cannot write {part}: {error.strerror}", hint="give another -o FILE") from error
    with stream:
        yield stream
    part.replace(whole)


def _copy(api: Api, query: dict[str, str | None], stream: BinaryIO) -> dict[str, int | None]:
    """Write the file, and return its size in bytes and, for ndjson, the number of messages."""
    size, last = 0, b""
    with progress(in_bytes=True) as bar, api.download("/api/v1/messages/export", query) as pieces:
        task = bar.add_task("exporting", total=None)
        for piece in pieces:
            stream.write(piece)
            size += len(piece)
            last = (last + piece)[-_LAST_LINE:]
            bar.update(task, completed=size)
    stream.flush()
    return {"bytes": size, "count": _count(api, last) if query["format"] == "ndjson" else None}


def _count(api: Api, end: bytes) -> int:
    """Return the number of messages in the last line; raises if the file is incomplete."""
    try:
        said = msgspec.json.decode(end.rstrip(b"\n").rpartition(b"\n")[2])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise cut_off(api.url) from error
    if not isinstance(said, dict) or said.get("complete") is not True:
        raise cut_off(api.url)
    return int(said["count"])
