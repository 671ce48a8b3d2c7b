"""``bus cluster``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import print_json

_PATH = "/api/v1/clusters"
app = typer.Typer(
    name="cluster", help="Choose the broker cluster to publish to.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="Cluster, see bus cluster list.", show_default=False)]


@app.command("list", epilog="Example:  bus cluster list")
@grouped
def list_clusters(output: Output, server: Server) -> None:
    """List clusters, their state, and the receivers that use them."""
    _show("GET", None, output, server)


@app.command("prefer", epilog="Example:  bus cluster prefer rabbitmq-backup")
@grouped
def prefer_cluster(name: Name, output: Output, server: Server) -> None:
    """Publish to this cluster whenever it is available.

    Applies to all receivers until it is changed. While the cluster is unavailable, the other one is used. Both are
    consumed all the time, so no messages are left behind.
    """
    _show("PUT", {"preferred": name}, output, server)


@app.command("auto", epilog="Example:  bus cluster auto")
@grouped
def prefer_primary(output: Output, server: Server) -> None:
    """Publish to the primary cluster whenever it is available."""
    _show("PUT", {"preferred": None}, output, server)


def _show(method: str, body: dict[str, Any] | None, output: Output, server: Server) -> None:
    """Print the clusters, after a change of the preferred one if there is a body."""
    table = output.table("name", "preferred", "ok", "published_by", "detail")
    with server.api() as api:
        found = api.call(method, _PATH, body=body)
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])
