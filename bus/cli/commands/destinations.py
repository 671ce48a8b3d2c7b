"""``bus destination``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bus.cli.api import destination_path, put_or_patch
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server
from bus.cli.output import print_fields, print_json, suggest

app = typer.Typer(name="destination", help="Manage destinations.", no_args_is_help=True, rich_markup_mode=None)
Code = Annotated[
    str, typer.Argument(metavar="CODE", help="Destination code: 1 to 128 of a-z A-Z 0-9 . _ -", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the subscription.", show_default=False)]


@app.command("set", epilog="Example:  bus destination set order.cancelled --retention-days 90")
@grouped
def set_destination(
    code: Code,
    transport: Annotated[str | None, typer.Option(help="Transport: direct, kafka, rabbitmq or nsq.")] = None,
    ordering: Annotated[str | None, typer.Option(help="Order of delivery: none, key or strict.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster of the transport.")] = None,
    retention_days: Annotated[int | None, typer.Option(help="Days to keep messages.")] = None,
    store_rate: Annotated[float | None, typer.Option(help="Maximum store writes per second.")] = None,
    spool_share: Annotated[float | None, typer.Option(help="Maximum share of each local queue, 0 to 1.")] = None,
    rate: Annotated[float | None, typer.Option(help="Messages per second that each receiver accepts.")] = None,
    burst: Annotated[int | None, typer.Option(help="Messages that each receiver accepts at once.")] = None,
    no_rate: Annotated[bool, typer.Option("--no-rate", help="Remove the rate limit.")] = False,
    max_bytes: Annotated[int | None, typer.Option(help="Maximum size of a message in bytes.")] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--no-paused", help="Accept messages and hold them, or deliver them.")
    ] = None,
    traced: Annotated[
        bool | None, typer.Option("--traced/--no-traced", help="Trace each message in the partitions of NSQ, or not.")
    ] = None,
    refuse_unchecked_keys: Annotated[
        bool | None,
        typer.Option(
            "--refuse-unchecked-keys/--accept-unchecked-keys",
            help="Reject messages whose idempotency key cannot be checked, or accept them.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Owner that is notified of its alarms, see alarm_channels.")] = None,
    pv_min: Annotated[
        int | None, typer.Option(help="Raise an alarm below this number of messages in ten minutes.")
    ] = None,
    pv_max: Annotated[
        int | None, typer.Option(help="Raise an alarm above this number of messages in ten minutes.")
    ] = None,
    no_pv: Annotated[bool, typer.Option("--no-pv", help="Remove both limits of messages in ten minutes.")] = False,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="Field hidden from all but admins, such as body.card.number; repeatable."),
    ] = None,
    no_mask: Annotated[bool, typer.Option("--no-mask", help="Remove all masking rules.")] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Create a destination, or change the given options of one."""
    fields = {
        "transport": transport,
        "ordering": ordering,
        "cluster": cluster,
        "retention_days": retention_days,
        "store_rate": store_rate,
        "spool_share": spool_share,
        "rate": rate,
        "burst": burst,
        "max_bytes": max_bytes,
        "paused": paused,
        "traced": traced,
        "refuse_unchecked_keys": refuse_unchecked_keys,
        "owner": owner,
        "pv_min": pv_min,
        "pv_max": pv_max,
        "mask": [] if no_mask else mask or None,
    }
    if no_mask and mask:
        raise typer.BadParameter("give --mask or --no-mask, not both")
    if no_pv and (pv_min, pv_max) != (None, None):
        raise typer.BadParameter("give --pv-min and --pv-max, or --no-pv")
    emptied = {"pv_min": None, "pv_max": None} if no_pv else {}
    given = {name: value for name, value in fields.items() if value is not None} | emptied
    given |= without_rate(rate, burst, no_rate)
    with server.api() as api:
        show(put_or_patch(api, destination_path(code), given), as_json=as_json)
    if not as_json:
        suggest(server.options, ("add a subscriber", ["subscription", "set", code, "NAME", "--url", "URL"]))


@app.command("list", epilog="Example:  bus destination list")
@grouped
def list_destinations(output: Output, server: Server) -> None:
    """List destinations."""
    table = output.table("code", "transport", "ordering", "retention_days", "max_bytes", "paused")
    with server.api() as api:
        found = api.call("GET", "/api/v1/destinations")
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])


@app.command("show", epilog="Example:  bus destination show order.cancelled")
@grouped
def show_destination(code: Code, as_json: AsJson = False, *, server: Server) -> None:
    """Show one destination."""
    with server.api() as api:
        show(api.call("GET", destination_path(code)), as_json=as_json)


@app.command("rm", epilog="Example:  bus destination rm order.cancelled")
@grouped
def remove_destination(code: Code, as_json: AsJson = False, *, server: Server) -> None:
    """Remove a destination that has no subscriptions."""
    with server.api() as api:
        api.call("DELETE", destination_path(code))
    show({"removed": code}, as_json=as_json)


def without_rate(rate: float | None, burst: int | None, no_rate: bool) -> dict[str, None]:
    """Return the fields that ``--no-rate`` clears."""
    if no_rate and (rate, burst) != (None, None):
        raise typer.BadParameter("give --rate and --burst, or --no-rate")
    return {"rate": None, "burst": None} if no_rate else {}


def show(resource: dict[str, Any], *, as_json: bool) -> None:
    """Print one resource."""
    if as_json:
        print_json(resource)
    else:
        print_fields(resource)
