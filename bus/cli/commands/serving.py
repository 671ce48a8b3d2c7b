"""``bus up`` and ``bus run``: the only commands that need the ``server`` extra."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bus.cli.options import ApiKey, AsJson, ServerUrl
from bus.cli.output import print_json_line
from bus.errors import ConfigurationError
from bus.gc_tuning import lasting

if TYPE_CHECKING:
    from bus.serving import Announcement

PLACE: Final = "PIER_PLACE"  # as bus.serving.place has it, which takes long to load
Config = Annotated[Path | None, typer.Option(help="Configuration file, bus.toml.")]
Data = Annotated[Path | None, typer.Option(help="Data directory: queues and store.  [default: data]")]
Host = Annotated[str | None, typer.Option(help="Address to serve on.  [default: 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(help="Port to serve on.  [default: 8700, or that of the role]")]

Processes = Annotated[
    str | None,
    typer.Option(metavar="N|auto", help="Number of processes on the port; auto: one per core.  [default: 1]"),
]


@contextmanager
def server_extra() -> Iterator[None]:
    """Raise an error that names the missing extra if an import fails.

    Raises
    ------
    ConfigurationError
        A library of the ``server`` extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; this command needs the server extra",
            hint='pip install "pier-bus[server]"',
        ) from error


def up(
    data: Data = None,
    host: Host = None,
    port: Port = None,
    processes: Processes = None,
    config: Config = None,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - an option of every command
    api_key: ApiKey = "",  # noqa: ARG001
) -> int:
    """Run all roles of the bus in one process.

    The roles are receiver, dispatcher, compensator, admin and alarms; --processes runs several processes on one port.
    Ctrl-C or SIGTERM finishes open requests and exits 0; everything else stays on disk. SIGHUP to a bus of several
    processes replaces them one by one.
    """
    _begin("the bus")
    with server_extra(), lasting():
        from bus.bootstrap import ROLES  # noqa: PLC0415
    overrides = {"data": data, "host": host, "port": port, "processes": processes}
    return _serve(ROLES, config, overrides, as_json=as_json)


def run(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Role: receiver, dispatcher, ...", show_default=False)],
    data: Data = None,
    host: Host = None,
    port: Port = None,
    config: Config = None,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - an option of every command
    api_key: ApiKey = "",  # noqa: ARG001
) -> int:
    """Run one role of the bus.

    The roles are receiver, dispatcher, compensator, admin, sweeper, alarms and lookup. All processes of a bus have the
    same store; each has its own data directory, or shares one with other roles. By default a receiver listens on 8700,
    an admin on 8701, a lookup proxy on 4161, the others on any free port.
    """
    _begin(f"the {role}")
    return _serve([role], config, {"data": data, "host": host, "port": port, "processes": "1"}, as_json=as_json)


def _begin(what: str) -> None:
    """At a terminal, print a line before everything is loaded, which takes seconds."""
    if sys.stderr.isatty() and PLACE not in os.environ:
        typer.echo(f"starting {what} ...", err=True)


def _serve(roles: Sequence[str], config: Path | None, overrides: dict[str, Any], *, as_json: bool) -> int:
    with server_extra(), lasting():
        from bus.serving import Place, serve  # noqa: PLC0415
        from bus.settings import load_settings  # noqa: PLC0415

    def announce(found: Announcement) -> None:
        if as_json:
            print_json_line({"url": found.url, "roles": found.roles, "data": found.data, "open": found.open})
        else:
            typer.echo("\n".join(found.lines))

    settings = load_settings(config, overrides)
    place = Place.inherited()
    if place is not None:
        return serve(place.settings(settings), place.roles, place.announce, place)
    if settings.number_of_processes > 1:
        from bus.serving.supervisor import supervise  # noqa: PLC0415 - of several processes only

        return supervise(settings, announce)
    return serve(settings, roles, announce)
