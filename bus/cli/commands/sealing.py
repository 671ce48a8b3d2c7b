"""``bus secrets``."""

from __future__ import annotations

import typer

from bus.cli.commands.destinations import show
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Server

_PATH = "/api/v1/secrets"
app = typer.Typer(
    name="secrets", help="Inspect and reseal stored secrets.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("status", epilog="Example:  bus secrets status")
@grouped
def status(as_json: AsJson = False, *, server: Server) -> None:
    """Count the secrets that BUS_SECRET_KEY does not seal."""
    with server.api() as api:
        show(api.call("GET", _PATH), as_json=as_json)


@app.command("reseal", epilog="Example:  bus secrets reseal")
@grouped
def reseal(as_json: AsJson = False, *, server: Server) -> None:
    """Seal all secrets with BUS_SECRET_KEY.

    Every process must have the key. BUS_SECRET_KEY_OLD can be removed afterwards.
    """
    with server.api() as api:
        show(api.call("POST", f"{_PATH}/reseal"), as_json=as_json)
