"""``bus spool``: the local file queues of producers and services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bus.cli.commands.files.records import describe
from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import print_json, progress
from bus.domain.times import format_time
from bus.errors import ConfigurationError
from bus.ports.spool import Record

if TYPE_CHECKING:
    from bus.spool.inspect import Overview

app = typer.Typer(name="spool", help="Inspect and drain local queues.", no_args_is_help=True, rich_markup_mode=None)
Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Spool directory, or a directory above several.", show_default=False)
]
_STREAM: Final = ("stream", "consumer", "records", "oldest", "unconfigured")


@app.command("ls", epilog="Example:  bus spool ls data")
@grouped
def list_spools(
    directory: Directory,
    output: Output,
    server: Server,  # noqa: ARG001 - an option of every command
) -> None:
    """List the queues in a directory, with their records.

    Records of an unconfigured stream are for a subscription that does not exist; they are delivered if it is created.
    """
    from bus.spool.inspect import Inspection  # noqa: PLC0415

    table = output.table("directory", "state", *_STREAM, "bytes", "damaged")
    items = []
    for path in _found(directory):
        with Inspection(path) as inspection:
            items.append(_summary(inspection.overview()))
    if output.as_json:
        print_json({"items": items, "next": None})
        return
    empty = dict.fromkeys(("lane", "consumer", "records", "oldest", "foreign"))
    table.show([item | _stream(consumer) for item in items for consumer in item["consumers"] or [empty]])


def _stream(consumer: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a consumer, under the names of the columns."""
    return consumer | {"stream": consumer["lane"], "unconfigured": consumer["foreign"]}


def _found(directory: Path) -> list[Path]:
    from bus.spool.inspect import spools  # noqa: PLC0415 - not for `bus --help`

    found = spools(directory)
    if not found:
        raise ConfigurationError(
            f"{directory} contains no spool", hint="give the spool of a producer, or the data directory of bus up"
        )
    return found


def _summary(overview: Overview) -> dict[str, Any]:
    from bus.cli.commands.files.foreign import ForeignQueueCheck  # noqa: PLC0415

    foreign = ForeignQueueCheck(overview.directory)
    return {
        "directory": str(overview.directory),
        "state": f"live, process {overview.owner.get('pid', '?')}" if overview.live else "orphan",
        "records": overview.records,
        "bytes": overview.bytes,
        "damaged": overview.damaged,
        "idle_seconds": round(overview.idle, 3),
        "consumers": [
            {
                "lane": found.lane,
                "consumer": found.consumer,
                "records": found.records,
                "oldest": None if found.oldest is None else format_time(found.oldest),
                "foreign": foreign.has(found),
            }
            for found in overview.consumers
            if found.records
        ],
        "evidence": [str(path) for path in overview.evidence],
    }


@app.command("show", epilog="Example:  bus spool show data/quarantine")
@grouped
def show_spool(
    directory: Directory,
    stream: Annotated[
        str | None, typer.Option("--stream", "--lane", help='Only this stream, such as "rejected".')
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of records of each stream.")] = 20,
    *,
    output: Output,
    server: Server,  # noqa: ARG001 - an option of every command
) -> None:
    """Show the oldest records of each stream.

    Reads only, also a queue that is in use.
    """
    table = output.table("directory", "stream", "time", "id", "destination", "bytes", "reason")
    items = [
        {"directory": str(path), **describe(record)}
        for path in _found(directory)
        for record in _records(path, stream, limit)
    ]
    if output.as_json:
        print_json({"items": items, "next": None})
    else:
        table.show([item | {"stream": item["lane"]} for item in items])


def _records(path: Path, stream: str | None, limit: int) -> Iterator[Record]:
    from bus.spool.inspect import Inspection  # noqa: PLC0415

    with Inspection(path) as inspection:
        streams = dict.fromkeys(found.lane for found in inspection.overview().consumers if found.records)
        for name in streams:
            if stream in (None, name):
                yield from inspection.peek(name, limit)


@app.command("drain", epilog="Example:  bus spool drain spool")
@grouped
def drain_spool(
    directory: Directory,
    rejected: Annotated[bool, typer.Option("--rejected", help="Also send rejected messages again.")] = False,
    *,
    output: Output,
    server: Server,
) -> int:
    """Send the queues of stopped producers and remove empty ones."""
    from bus.client.sending.drain import drain  # noqa: PLC0415
    from bus.client.spooling.home import homes  # noqa: PLC0415

    table = output.table("directory", "sent", "waiting", "rejected", "removed", "problem")
    found = homes(directory)
    if not found:
        raise ConfigurationError(
            f"{directory} contains no spool of a producer",
            hint="a bus sends its own queues: start bus up with this data directory",
        )
    with progress() as bar:
        task = bar.add_task("draining", total=None)

        def sent(count: int) -> None:
            bar.advance(task, count)

        done = [drain(path, server.url, server.key or None, rejected=rejected, sent=sent) for path in found]
    items = [item._asdict() | {"directory": str(item.directory)} for item in done]
    if output.as_json:
        print_json({"items": items, "next": None})
    else:
        table.show(items)
    return 0 if all(item.removed for item in done) else 1
