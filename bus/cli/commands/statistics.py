"""``bus stats``."""

from __future__ import annotations

import enum
import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.api import Api
from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl, read_time
from bus.cli.output import print_json, print_table

_COLUMNS: Final = (
    *("accepted", "delivered", "dead", "attempts", "failed_attempts"),
    *("success_rate", "p50_ms", "p99_ms"),
)


class By(enum.StrEnum):
    """What each line is of."""

    DESTINATION = "destination"
    SUBSCRIPTION = "subscription"
    SOURCE = "source"


_NAMES: Final = {
    None: (),
    By.DESTINATION: ("destination",),
    By.SUBSCRIPTION: ("destination", "subscription"),
    By.SOURCE: ("source",),
}


def stats(
    since: Annotated[
        str | None, typer.Option("--from", help="RFC 3339, or a duration ago; 1h ago if not given.")
    ] = None,
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago.")] = None,
    by: Annotated[By | None, typer.Option(help="A line for each of these, the busiest first.")] = None,
    destination: Annotated[str | None, typer.Option(help="Code.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many lines at most.")] = 50,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Show how much was accepted and delivered, how well and how fast; --json has it over time."""
    query: dict[str, Any] = {
        "from": read_time(since, "--from"),
        "to": read_time(before, "--to"),
        "by": by,
        "destination": destination,
        "limit": limit,
    }
    with Api(url, api_key) as api:
        found = api.call("GET", "/api/v1/stats", query=query)
    if as_json:
        print_json(found)
        return
    print_table((*_NAMES[by], *_COLUMNS), [_row(_NAMES[by], series) for series in found["series"]])
    left = f"; {found['left_out']} lines are not shown" if found["left_out"] else ""
    until = "" if found["complete"] else f", complete until {found['complete_until']}"
    sys.stderr.write(f"{found['from']} to {found['to']}{until}{left}\n")


def _row(names: tuple[str, ...], series: dict[str, Any]) -> list[object]:
    totals = series["totals"]
    figures = totals | {status: totals["deliveries"].get(status, 0) for status in ("delivered", "dead")}
    return [*(series[name] for name in names), *(figures[column] for column in _COLUMNS)]
