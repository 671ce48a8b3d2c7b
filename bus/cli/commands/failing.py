"""``bus failures``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server, read_time
from bus.cli.output import print_json, suggest

_COLUMNS: Final = (
    "count",
    "destination",
    "subscription",
    "example",
    "deliveries",
    "first_seen",
    "last_seen",
    "sample",
    "advice",
)


@grouped
def failures(
    destination: Annotated[str | None, typer.Option(help="Destination code.")] = None,
    subscription: Annotated[str | None, typer.Option(help="Subscription name.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Start: RFC 3339, or a duration before now such as 2h.")
    ] = None,
    before: Annotated[str | None, typer.Option("--to", help="End: RFC 3339, or a duration before now.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of groups.")] = 100,
    *,
    output: Output,
    server: Server,
) -> None:
    """Show failing deliveries, grouped by subscription and error."""
    table = output.table(*_COLUMNS)
    query = {
        "destination": destination,
        "subscription": subscription,
        "from": read_time(since, "--from"),
        "to": read_time(before, "--to"),
        "limit": limit,
    }
    with server.api() as api:
        found = api.call("GET", "/api/v1/failures", query=query)
    if output.as_json:
        print_json(found)
        return
    table.show([{**group, "deliveries": _states(group["deliveries"])} for group in found["items"]])
    _suggest(found["items"], server)
    if not found["complete"]:
        since = f"; messages before {found['complete_since']} are not counted" if found["complete_since"] else ""
        sys.stderr.write(f"only the largest groups are shown{since}; for others, give --destination or --from\n")


def _states(deliveries: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in deliveries.items())


def _suggest(groups: list[dict[str, Any]], server: Server) -> None:
    """Suggest next steps for the largest group."""
    if groups:
        asked = {"from": "7d", "to": "0s", **groups[0]["filter"]}
        suggest(
            server.options,
            ("example", ["trace", groups[0]["sample"]]),
            ("resend after the repair", ["resend", *(word for name in asked for word in (f"--{name}", asked[name]))]),
        )
