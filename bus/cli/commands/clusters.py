"""``bus cluster``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bus.cli.api import Api
from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl
from bus.cli.output import print_json, print_table

_PATH = "/api/v1/clusters"
app = typer.Typer(
    name="cluster", help="Which cluster of a broker is published to.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="As bus cluster list names it.", show_default=False)]


@app.command("list", epilog="Example:  bus cluster list")
def list_clusters(as_json: AsJson = False, url: BusUrl = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """List the clusters, whether they are well, and which receivers publish to which."""
    with Api(url, api_key) as api:
        _show(api.call("GET", _PATH), as_json=as_json)


@app.command("prefer", epilog="Example:  bus cluster prefer rabbitmq-backup")
def prefer_cluster(name: Name, as_json: AsJson = False, url: BusUrl = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Publish to a cluster in every receiver: at once if it is well, and again whenever it is, until told otherwise.

    While it is away the other one is used. Both are consumed all the time, so nothing stays behind.
    """
    _prefer(name, as_json=as_json, url=url, api_key=api_key)


@app.command("auto", epilog="Example:  bus cluster auto")
def leave_to_the_bus(as_json: AsJson = False, url: BusUrl = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Leave the choice to the bus again: the primary, once it has been well for a while."""
    _prefer(None, as_json=as_json, url=url, api_key=api_key)


def _prefer(name: str | None, *, as_json: bool, url: str, api_key: str) -> None:
    with Api(url, api_key) as api:
        _show(api.call("PUT", _PATH, body={"preferred": name}), as_json=as_json)


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = ("name", "preferred", "ok", "published_by", "detail")
    print_table(columns, [[item.get(name) for name in columns] for item in found["items"]])
