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
_SUBSCRIPTION: Final = (
    *("destination", "subscription", "queued", "retrying", "oldest_queued", "paused"),
    *("delivered_per_second", "success_rate", "p99_ms"),
)
_ALARM: Final = ("severity", "since", "summary", "next_step")
_PROCESS: Final = ("node", "roles", "url", "version", "started_at", "state", "spools", "slots", "open_breakers")
_CRITICAL: Final = "critical"


@grouped
def status(
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of subscriptions, busiest first.")] = 20,
    *,
    output: Output,
    server: Server,
) -> int:
    """Show alarms, queues and processes.

    Exit 1: an alarm is critical.
    """
    tables = output.tables(_NOW, _ALARM, _SUBSCRIPTION, _PROCESS)
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
        sys.stderr.write("rates are unknown: the store is unreachable\n")
    else:
        _section("now", now, [figures])
    _section("alarms", alarms, [alarm | {"summary": alarm["what"]} for alarm in overview["alarms"]])
    rows = [one | {"queued": one["backlog"], "oldest_queued": one["oldest"]} for one in overview["subscriptions"]]
    _section("subscriptions", subscriptions, rows)
    left = overview["left_out"]["subscriptions"]
    if left:
        sys.stderr.write(f"{left} more subscriptions: raise --limit\n")
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
    slots = found["permits"]
    fullest = max(found["spools"], key=lambda spool: float(spool["used"]), default=None)
    return found | {
        "state": _state(found),
        "spools": f"{plain(fullest['name'])} {fullest['used']:.0%}" if fullest is not None else None,
        "slots": f"{slots['in_use']}/{slots['share']}" if slots is not None else None,
    }


def _state(found: dict[str, Any]) -> str:
    """Return the state of a process in a few words."""
    if not found["answers"]:
        return str(found["trouble"])
    if found["troubles"]:
        return "; ".join(f"{part['name']}: {part['detail']}" for part in found["troubles"])
    return "ok" if found["is_current"] else "outdated configuration"
