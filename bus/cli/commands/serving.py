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
from bus.garbage import lasting

if TYPE_CHECKING:
    from bus.serving import Announcement

PLACE: Final = "PIER_PLACE"  # as bus.serving.place has it, which takes long to load
Config = Annotated[Path | None, typer.Option(help="A bus.toml.")]
Data = Annotated[Path | None, typer.Option(help="Directory of spools and store.  [default: data]")]
Host = Annotated[str | None, typer.Option(help="Address to serve on.  [default: 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(help="Port to serve on.  [default: 8700, or by the role]")]

Processes = Annotated[
    str | None,
    typer.Option(metavar="N|auto", help="How many processes share the port; auto: one on each core.  [default: 1]"),
]


@contextmanager
def server_extra() -> Iterator[None]:
    """Say which extra is missing when what is imported here is not installed.

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
    address: ServerUrl = "",  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> int:
    """Run everything: receiver, dispatcher, compensator, admin, alarms; in one process, or in several on one port.

    Ctrl-C or SIGTERM finishes what is in flight and exits 0; everything else waits on disk.
    SIGHUP to a bus of several processes replaces them one by one.
    """
    _begin("a bus")
    with server_extra(), lasting():
        from bus.bootstrap import ROLES  # noqa: PLC0415
    overrides = {"data": data, "host": host, "port": port, "processes": processes}
    return _serve(ROLES, config, overrides, as_json=as_json)


def run(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="receiver, dispatcher, ...", show_default=False)],
    data: Data = None,
    host: Host = None,
    port: Port = None,
    config: Config = None,
    as_json: AsJson = False,
    address: ServerUrl = "",  # noqa: ARG001 - every command takes it
    api_key: ApiKey = "",  # noqa: ARG001
) -> int:
    """Run one role: receiver, dispatcher, compensator, admin, sweeper, alarms, lookup.

    All processes of a bus have the same store; each has a data directory of its own, or shares one with other roles.
    A receiver listens on 8700, an admin on 8701, a lookup proxy on 4161, the others on any free port, unless told
    otherwise.
    """
    _begin(f"a process with the role {role}")
    return _serve([role], config, {"data": data, "host": host, "port": port, "processes": "1"}, as_json=as_json)


def _begin(what: str) -> None:
    """Say what is being done to a person who would otherwise look at nothing while everything is loaded."""
    if sys.stderr.isatty() and PLACE not in os.environ:
        typer.echo(f"starting {what}; its addresses follow once it serves", err=True)


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
