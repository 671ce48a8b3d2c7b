"""``bus stats``."""

from __future__ import annotations

import enum
import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server, read_time
from bus.cli.output import print_json

_COLUMNS: Final = (
    *("accepted", "delivered", "dead", "attempts", "failed_attempts"),
    *("success_rate", "p50_ms", "p99_ms"),
)


class GroupBy(enum.StrEnum):
    """The subject of each line."""

    DESTINATION = "destination"
    SUBSCRIPTION = "subscription"
    SOURCE = "source"


_NAMES: Final = {
    None: (),
    GroupBy.DESTINATION: ("destination",),
    GroupBy.SUBSCRIPTION: ("destination", "subscription"),
    GroupBy.SOURCE: ("source",),
}


@grouped
def stats(
    since: Annotated[
        str | None, typer.Option("--from", help="Start: RFC 3339, or a duration before now.  [default: 1h]")
    ] = None,
    before: Annotated[str | None, typer.Option("--to", help="End: RFC 3339, or a duration before now.")] = None,
    by: Annotated[GroupBy | None, typer.Option(help="Print a line for each of these, busiest first.")] = None,
    destination: Annotated[str | None, typer.Option(help="Destination code.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of lines.")] = 50,
    *,
    output: Output,
    server: Server,
) -> None:
    """Show throughput, success rates and latencies.

    With --json, as series over time.
    """
    table = output.table(*_NAMES[by], *_COLUMNS)
    query: dict[str, Any] = {
        "from": read_time(since, "--from"),
        "to": read_time(before, "--to"),
        "by": by,
        "destination": destination,
        "limit": limit,
    }
    with server.api() as api:
        found = api.call("GET", "/api/v1/stats", query=query)
    if output.as_json:
        print_json(found)
        return
    table.show([_row(series) for series in found["series"]])
    left = f"; {found['left_out']} more lines: raise --limit" if found["left_out"] else ""
    until = "" if found["complete"] else f", complete until {found['complete_until']}"
    sys.stderr.write(f"{found['from']} to {found['to']}{until}{left}\n")


def _row(series: dict[str, Any]) -> dict[str, Any]:
    totals: dict[str, Any] = series["totals"]
    return series | totals | {status: totals["deliveries"].get(status, 0) for status in ("delivered", "dead")}
