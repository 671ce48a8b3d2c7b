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
from bus.cli.output import print_json, progress
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
    """By what messages are chosen; all that are given must hold."""

    ref: Annotated[str | None, typer.Option(help="An id of any kind, whole: message, trace, biz id or a key.")] = None
    destination: Annotated[str | None, typer.Option(help="Code.")] = None
    subscription: Annotated[str | None, typer.Option(help="Name; --status is then that delivery's.")] = None
    biz_id: Annotated[str | None, typer.Option(help="As the producer gave it.")] = None
    source: Annotated[str | None, typer.Option(help="Who sent.")] = None
    status: Annotated[str | None, typer.Option(help="delivered, retrying, dead, pending, ...")] = None
    since: Annotated[str | None, typer.Option("--from", help="RFC 3339, or a duration ago such as 15m.")] = None
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago.")] = None
    signature: Annotated[str | None, typer.Option(help="Failing like this; bus failures has them.")] = None
    status_class: Annotated[str | None, typer.Option(help="2xx, 3xx, 4xx, 5xx or none: what the last attempt got.")] = (
        None
    )
    error: Annotated[
        str | None, typer.Option(help="Inside the reason or error of a delivery that is not delivered.")
    ] = None
    header: Annotated[str | None, typer.Option(help="NAME or 'NAME: VALUE' of the message's own headers.")] = None
    body_path: Annotated[str | None, typer.Option(help="The JSON body has it, such as order.lines[0].sku.")] = None
    body_value: Annotated[str | None, typer.Option(help="What stands at --body-path.")] = None
    body_text: Annotated[str | None, typer.Option(help="Inside the body.")] = None
    text: Annotated[str | None, typer.Option("--text", "--q", help="Inside id, biz id or source.")] = None

    def query(self) -> dict[str, str | None]:
        """Return them as the API names them."""
        named = {_NAMES.get(name, name): value for name, value in asdict(self).items()}
        return named | {"from": read_time(self.since, "--from"), "to": read_time(self.before, "--to")}


@grouped
def search(
    conditions: Conditions,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    *,
    output: Output,
    server: Server,
) -> None:
    """Find messages, the newest first."""
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
        sys.stderr.write(f"searched back to {searched['from']}; there may be more: raise --limit or give --to\n")
    if searched.get("archived"):
        sys.stderr.write(_elsewhere(searched["archived"]) + "\n")


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


def _elsewhere(archived: list[dict[str, Any]]) -> str:
    """Say which days were not searched, and how to read what they had."""
    first, last = archived[0]["partition"], archived[-1]["partition"]
    days = first if first == last else f"{first} to {last}"
    lake = archived[-1]["lake"] or "LAKE"
    return f"{days} are in the archive and were not searched; with an id: bus pipeline find ID --lake {lake}"


@grouped
def export(
    conditions: Conditions,
    what: Annotated[
        What, typer.Argument(metavar="[configuration]", help="What to write, instead of messages.")
    ] = "messages",
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE|-", help="Where to.")] = "-",
    form: Annotated[
        Format | None, typer.Option("--format", help="Without: csv for a FILE.csv, else ndjson.", show_default=False)
    ] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="With bodies; ndjson only, and on record.")] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Write every message of a selection to a file, which has its name only once it is whole.

    ``bus export configuration`` writes the destinations and subscriptions instead, for ``bus apply``.
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
        raise typer.BadParameter("it would be between the messages; give -o FILE", param_hint="--json")
    with server.api() as api, _opened(output) as stream:
        done = _copy(api, query, stream)
    if as_json:
        print_json({"file": output, **done})
    elif output != "-":
        count = f"{done['count']} messages, " if done["count"] is not None else ""
        typer.echo(f"{output}: {count}{done['bytes']} bytes")


@contextmanager
def _opened(output: str) -> Iterator[BinaryIO]:
    """Give the stream to write to; a file gets its name when all went well, and ``.part`` behind it until then."""
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
    """Write the file, and return its size in bytes and, of ndjson, which ends with a count, its messages."""
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
    """Return the number of messages that the last line tells; raises when the file was cut off before it."""
    try:
        said = msgspec.json.decode(end.rstrip(b"\n").rpartition(b"\n")[2])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise cut_off(api.url) from error
    if not isinstance(said, dict) or said.get("complete") is not True:
        raise cut_off(api.url)
    return int(said["count"])
