"""``bus spool``: the local file queues of producers and services."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl
from bus.cli.output import print_json, print_table, progress
from bus.errors import ConfigurationError

app = typer.Typer(name="spool", help="The local file queues.", no_args_is_help=True, rich_markup_mode=None)
Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="A spool directory, or one with several under it.", show_default=False)
]
_COLUMNS: Final = ("directory", "state", "lane", "records", "bytes", "oldest", "damaged")


@app.command("ls")
def list_spools(
    directory: Directory,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """List the queues under a directory: whose they are, and what waits in them."""
    items = [_summary(path) for path in _found(directory)]
    if as_json:
        print_json({"items": items, "next": None})
        return
    rows: list[list[object]] = []
    for item in items:
        lanes = item["lanes"] or [{}]
        for lane in lanes:
            cells = [lane.get(name) for name in ("lane", "records", "bytes", "oldest")]
            rows.append([item["directory"], item["state"], *cells, item["damaged"]])
    print_table(_COLUMNS, rows)


def _found(directory: Path) -> list[Path]:
    from bus.client.peek import spools_under  # noqa: PLC0415 - not for `bus --help`

    found = spools_under(directory)
    if not found:
        raise ConfigurationError(
            f"there is no spool in {directory}", hint="give the spool= of a Bus, or --data of bus up"
        )
    return found


def _summary(path: Path) -> dict[str, Any]:
    from bus.client.peek import Peek  # noqa: PLC0415
    from bus.spool import is_live, owner  # noqa: PLC0415

    who = owner(path)
    live = is_live(path)
    with Peek(path) as peek:
        return {
            "directory": str(path),
            "state": f"live, process {who.get('pid', '?')}" if live else "orphan",
            "lanes": [lane._asdict() for lane in peek.lanes()],
            "damaged": peek.damaged(),
        }


@app.command("show")
def show_spool(
    directory: Directory,
    lane: Annotated[str | None, typer.Option(help='Only this lane, such as "rejected".')] = None,
    limit: Annotated[int, typer.Option(min=1, help="Records of each lane.")] = 20,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """Show the oldest records of each lane; changes nothing, and may be used on a live queue."""
    from bus.client.peek import Peek  # noqa: PLC0415

    items: list[dict[str, Any]] = []
    for path in _found(directory):
        with Peek(path) as peek:
            names = [found.lane for found in peek.lanes() if lane in (None, found.lane)]
            items += [{"directory": str(path), **record} for name in names for record in peek.records(name, limit)]
    if as_json:
        print_json({"items": items, "next": None})
        return
    columns = ("directory", "lane", "time", "id", "destination", "bytes", "reason")
    print_table(columns, [[item.get(column) for column in columns] for item in items])


@app.command("drain")
def drain_spool(
    directory: Directory,
    rejected: Annotated[bool, typer.Option("--rejected", help="Try what was refused for good again as well.")] = False,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> int:
    """Send what waits in a producer's queues whose process is gone, and remove the emptied directories."""
    from bus.client.drain import drain  # noqa: PLC0415
    from bus.client.home import homes  # noqa: PLC0415

    found = homes(directory)
    if not found:
        raise ConfigurationError(
            f"there is no producer's spool in {directory}",
            hint="a service drains its own queues: bus up with the same --data",
        )
    with progress() as bar:
        task = bar.add_task("draining", total=None)

        def sent(count: int) -> None:
            bar.advance(task, count)

        done = [drain(path, url, api_key or None, rejected=rejected, sent=sent) for path in found]
    if as_json:
        print_json({"items": [item._asdict() | {"directory": str(item.directory)} for item in done], "next": None})
    else:
        columns = ("directory", "sent", "waiting", "rejected", "removed", "problem")
        print_table(columns, [[getattr(item, column) for column in columns] for item in done])
    return 0 if all(item.removed for item in done) else 1
