"""``bus status``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import plain, print_json
from bus.cli.tables import Table

_NOW: Final = ("accepted_per_second", "delivered_per_second", "success_rate", "p50_ms", "p99_ms")
_LANE: Final = (
    *("destination", "subscription", "backlog", "retrying", "oldest", "paused"),
    *("delivered_per_second", "success_rate", "p99_ms"),
)
_ALARM: Final = ("severity", "since", "what", "do")
_PROCESS: Final = ("node", "roles", "url", "version", "started_at", "state", "spools", "permits", "open_breakers")
_CRITICAL: Final = "critical"


@grouped
def status(
    limit: Annotated[
        int, typer.Option(min=0, max=1000, help="How many subscriptions at most, the busiest first.")
    ] = 20,
    *,
    output: Output,
    server: Server,
) -> int:
    """Show how the whole bus is now: alarms, what waits where, every process; exit 1 when an alarm is critical."""
    tables = output.tables(_NOW, _ALARM, _LANE, _PROCESS)
    with server.api() as api:
        overview = api.call("GET", "/api/v1/overview", query={"limit": limit})
        # Null for a key that is limited to destinations, which may not see processes.
        processes = api.call("GET", "/api/v1/processes") if overview["processes"] is not None else None
    if output.as_json:
        print_json({"overview": overview, "processes": processes})
    else:
        _print(overview, processes, tables)
    return int(any(alarm["severity"] == _CRITICAL for alarm in overview["alarms"]))


def _print(overview: dict[str, Any], processes: dict[str, Any] | None, tables: list[Table]) -> None:
    now, alarms, subscriptions, members = tables
    figures = overview["now"]
    if figures is None:
        sys.stderr.write("rates are not known: the store does not answer\n")
    else:
        _section("now", now, [figures])
    _section("alarms", alarms, [alarm | {"do": alarm["next_step"]} for alarm in overview["alarms"]])
    _section("subscriptions", subscriptions, overview["subscriptions"])
    left = overview["left_out"]["subscriptions"]
    if left:
        sys.stderr.write(f"{left} subscriptions are not shown: --limit\n")
    if processes is not None:
        _section("processes", members, [_process(found) for found in processes["items"]])


def _section(name: str, table: Table, rows: list[dict[str, Any]]) -> None:
    if not table.columns:
        return
    sys.stdout.write(f"{name}\n" if rows else f"{name}: none\n")
    sys.stdout.flush()
    if rows:
        table.show(rows)


def _process(found: dict[str, Any]) -> dict[str, Any]:
    permits = found["permits"]
    fullest = max(found["spools"], key=lambda spool: float(spool["used"]), default=None)
    return found | {
        "state": _state(found),
        "spools": f"{plain(fullest['name'])} {fullest['used']:.0%}" if fullest is not None else None,
        "permits": f"{permits['in_use']}/{permits['share']}" if permits is not None else None,
    }


def _state(found: dict[str, Any]) -> str:
    """Say in a few words how a process is."""
    if not found["answers"]:
        return str(found["trouble"])
    if found["troubles"]:
        return "; ".join(f"{part['name']}: {part['detail']}" for part in found["troubles"])
    return "ok" if found["is_current"] else "its configuration is not the one of now"
