"""``bus backup`` and ``bus restore``."""

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

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the backup.", show_default=False)]
_MONGODB: Final = "MongoDB is not in the backup: run mongodump --oplog or take a snapshot now"
_SECOND: Final = (
    "if the old bus still runs or may be started again, separate the two: they must not share brokers or subscribers"
)


def backup(
    directory: Folder,
    data: Annotated[
        Path | None, typer.Option(help="Data directory of the bus, or a directory above several.  [default: data]")
    ] = None,
    config: Config = None,
    spools_only: Annotated[
        bool, typer.Option("--spools-only", help="Omit the store; it must be in another backup, taken after this one.")
    ] = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Include keys and passwords of the settings, unencrypted.")
    ] = False,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - an option of every command
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """Back up a bus, running or stopped, to a folder.

    Copies the store, the local queues and the configuration. Every message that was acknowledged before the backup
    began is in it. Run again with the same folder, it copies changes only, and continues an interrupted backup. Give it
    the settings of the bus: --config, BUS_*.
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
    data: Annotated[Path, typer.Option(help="New data directory: empty, or not existing.", show_default=False)],
    config: Config = None,
    same_bus: Annotated[
        bool,
        typer.Option("--same-bus", help="The bus continues: only this directory was lost, MongoDB was not."),
    ] = False,
    store_only: Annotated[
        bool, typer.Option("--store-only", help="Only the store was lost: keep the queues in the directory.")
    ] = False,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - an option of every command
    api_key: ApiKey = "",  # noqa: ARG001
) -> None:
    """Restore a backup into an empty data directory.

    Verifies every file first. The restored bus is a new one: it has the messages, users and keys of the old bus, and
    none of its processes. An interrupted restore continues when it is run again; no bus starts before it is complete.
    If the store is MongoDB, restore that first.
    """
    with server_extra():
        from bus.backups import Extent  # noqa: PLC0415
        from bus.backups import restore as put_back  # noqa: PLC0415
        from bus.clock import SystemClock  # noqa: PLC0415
        from bus.settings import load_settings  # noqa: PLC0415

    if same_bus and store_only:
        raise typer.BadParameter("give --same-bus or --store-only, not both")
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
    """Return a function that draws a progress bar for each step at a terminal."""
    with progress(in_bytes=True) as bar:

        def begin(what: str, size: int) -> Any:
            task = bar.add_task(what, total=size)
            return lambda count: bar.advance(task, count)

        yield begin
