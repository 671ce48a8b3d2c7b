"""``bus backup`` and ``bus restore``: a copy of a running bus, and a bus of its own out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bus.cli.commands.serving import Config, server_extra
from bus.cli.options import ApiKey, AsJson, ServerUrl
from bus.cli.output import print_fields, print_json, progress
from bus.domain.times import format_time

if TYPE_CHECKING:
    from bus.backups.manifest import Manifest
    from bus.backups.taking import Begin

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.", show_default=False)]
_MONGODB: Final = "the MongoDB is not in it: take mongodump --oplog, or a snapshot, now"
_SECOND: Final = (
    "if the old bus still runs, or may come back, keep the two apart: they may not use the same brokers, nor send to "
    "the same subscribers"
)


def backup(
    directory: Folder,
    data: Annotated[
        Path | None, typer.Option(help="The bus's data directory, or one with several below it.  [default: data]")
    ] = None,
    config: Config = None,
    spools_only: Annotated[
        bool, typer.Option("--spools-only", help="Leave the store out: another backup has it, taken after this one.")
    ] = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Keep keys and passwords of the settings, in the clear.")
    ] = False,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """Copy the store, the local queues and the configuration of a bus into a folder, while it runs or stands still.

    Every message that was acknowledged before it began is in it. Run again with the same folder, it copies what has
    changed since, and goes on where it was cut off. Give the settings that the bus has: --config, BUS_*.
    """
    with server_extra():
        from bus.backups import take  # noqa: PLC0415
        from bus.clock import SystemClock  # noqa: PLC0415
        from bus.files import allow_open_files  # noqa: PLC0415
        from bus.settings import load_settings  # noqa: PLC0415

    allow_open_files()  # each day of the store is three
    settings = load_settings(config, {"data": data})
    with _bars() as begin:
        taken = take(settings, directory, SystemClock(), begin, spools_only=spools_only, with_secrets=with_secrets)
    shown = {**_counts(taken.manifest), "kept": taken.kept}
    _show(shown, _MONGODB if taken.manifest.store == "mongodb" else "", as_json=as_json)


def restore(
    directory: Folder,
    data: Annotated[Path, typer.Option(help="The new data directory: empty, or not there.", show_default=False)],
    config: Config = None,
    same_bus: Annotated[
        bool,
        typer.Option("--same-bus", help="The MongoDB was not lost and the bus goes on: only this directory was."),
    ] = False,
    store_only: Annotated[
        bool, typer.Option("--store-only", help="The directory was not lost, and keeps its queues: only the store was.")
    ] = False,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """Put a backup into an empty data directory; every file is verified before.

    The restored bus is one of its own: it has the messages, users and keys of the old one, and none of its processes.
    Cut off, it goes on when it is run again, and no bus starts before it has ended. A bus whose store is a MongoDB
    needs that back first.
    """
    with server_extra():
        from bus.backups import Extent  # noqa: PLC0415
        from bus.backups import restore as put_back  # noqa: PLC0415
        from bus.clock import SystemClock  # noqa: PLC0415
        from bus.settings import load_settings  # noqa: PLC0415

    if same_bus and store_only:
        raise typer.BadParameter("choose one of --same-bus and --store-only")
    extent = Extent.DISK if same_bus else Extent.STORE if store_only else Extent.ALL
    settings = load_settings(config, {"data": data})
    with _bars() as begin:
        done = put_back(directory, settings, SystemClock(), begin, extent=extent)
    note = _SECOND if extent is Extent.ALL else ""
    _show({**_counts(done.manifest), "kept": done.kept}, note, as_json=as_json)


def _counts(manifest: Manifest) -> dict[str, Any]:
    return {
        "backup": manifest.id,
        "began_at": format_time(manifest.began_at),
        "version": manifest.version,
        "store": manifest.store,
        "messages": manifest.records("store"),
        "spools": manifest.count("spool"),
        "records": manifest.records("spool"),
        "files": len(manifest.parts),
        "bytes": manifest.bytes,
    }


def _show(fields: dict[str, Any], note: str, *, as_json: bool) -> None:
    if as_json:
        print_json(fields | ({"note": note} if note else {}))
        return
    print_fields(fields)
    if note:
        typer.echo(f"note: {note}", err=True)


@contextmanager
def _bars() -> Iterator[Begin]:
    """Give what draws a bar for each step, on a terminal."""
    with progress(in_bytes=True) as bar:

        def begin(what: str, size: int) -> Any:
            task = bar.add_task(what, total=size)
            return lambda count: bar.advance(task, count)

        yield begin
