"""``bus secrets``."""

from __future__ import annotations

import typer

from bus.cli.commands.destinations import show
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Server

_PATH = "/api/v1/secrets"
app = typer.Typer(name="secrets", help="How secrets rest in the store.", no_args_is_help=True, rich_markup_mode=None)


@app.command("status", epilog="Example:  bus secrets status")
@grouped
def status(as_json: AsJson = False, *, server: Server) -> None:
    """Say how many subscriptions have a secret that is not sealed with BUS_SECRET_KEY."""
    with server.api() as api:
        show(api.call("GET", _PATH), as_json=as_json)


@app.command("reseal", epilog="Example:  bus secrets reseal")
@grouped
def reseal(as_json: AsJson = False, *, server: Server) -> None:
    """Seal all secrets with BUS_SECRET_KEY, once every process has it; BUS_SECRET_KEY_OLD may go afterwards."""
    with server.api() as api:
        show(api.call("POST", f"{_PATH}/reseal"), as_json=as_json)
