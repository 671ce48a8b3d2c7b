"""``bus cluster``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import print_json

_PATH = "/api/v1/clusters"
app = typer.Typer(
    name="cluster", help="Which cluster of a broker is published to.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="As bus cluster list names it.", show_default=False)]


@app.command("list", epilog="Example:  bus cluster list")
@grouped
def list_clusters(output: Output, server: Server) -> None:
    """List the clusters, whether they are well, and which receivers publish to which."""
    _show("GET", None, output, server)


@app.command("prefer", epilog="Example:  bus cluster prefer rabbitmq-backup")
@grouped
def prefer_cluster(name: Name, output: Output, server: Server) -> None:
    """Publish to a cluster in every receiver: at once if it is well, and again whenever it is, until told otherwise.

    While it is away the other one is used. Both are consumed all the time, so nothing stays behind.
    """
    _show("PUT", {"preferred": name}, output, server)


@app.command("auto", epilog="Example:  bus cluster auto")
@grouped
def leave_to_the_bus(output: Output, server: Server) -> None:
    """Leave the choice to the bus again: the primary, once it has been well for a while."""
    _show("PUT", {"preferred": None}, output, server)


def _show(method: str, body: dict[str, Any] | None, output: Output, server: Server) -> None:
    """Ask for the clusters, or change which is preferred, and print them."""
    table = output.table("name", "preferred", "ok", "published_by", "detail")
    with server.api() as api:
        found = api.call(method, _PATH, body=body)
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])
