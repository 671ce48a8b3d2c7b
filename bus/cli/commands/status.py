"""``bus status``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.api import Api
from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl
from bus.cli.output import plain, print_json, print_table

_NOW: Final = ("accepted_per_second", "delivered_per_second", "success_rate", "p50_ms", "p99_ms")
_LANE: Final = (
    *("destination", "subscription", "backlog", "retrying", "oldest", "paused"),
    *("delivered_per_second", "success_rate", "p99_ms"),
)
_PROCESS: Final = ("node", "roles", "url", "version", "started_at", "state", "spools", "permits", "open_breakers")
_CRITICAL: Final = "critical"


def status(
    limit: Annotated[
        int, typer.Option(min=0, max=1000, help="How many subscriptions at most, the busiest first.")
    ] = 20,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> int:
    """Show how the whole bus is now: alarms, what waits where, every process; exit 1 when an alarm is critical."""
    with Api(url, api_key) as api:
        overview = api.call("GET", "/api/v1/overview", query={"limit": limit})
        # Null for a key that is limited to destinations, which may not see processes.
        processes = api.call("GET", "/api/v1/processes") if overview["processes"] is not None else None
    if as_json:
        print_json({"overview": overview, "processes": processes})
    else:
        _print(overview, processes)
    return int(any(alarm["severity"] == _CRITICAL for alarm in overview["alarms"]))


def _print(overview: dict[str, Any], processes: dict[str, Any] | None) -> None:
    figures = overview["now"]
    if figures is None:
        sys.stderr.write("rates are not known: the store does not answer\n")
    else:
        _section("now", _NOW, [[figures[name] for name in _NOW]])
    alarms = [[alarm["severity"], alarm["since"], alarm["what"], alarm["next_step"]] for alarm in overview["alarms"]]
    _section("alarms", ("severity", "since", "what", "do"), alarms)
    _section("subscriptions", _LANE, [[lane[name] for name in _LANE] for lane in overview["subscriptions"]])
    left = overview["left_out"]["subscriptions"]
    if left:
        sys.stderr.write(f"{left} subscriptions are not shown: --limit\n")
    if processes is not None:
        _section("processes", _PROCESS, [_process(found) for found in processes["items"]])


def _section(name: str, columns: tuple[str, ...], rows: list[list[object]]) -> None:
    sys.stdout.write(f"{name}\n" if rows else f"{name}: none\n")
    sys.stdout.flush()
    if rows:
        print_table(columns, rows)


def _process(found: dict[str, Any]) -> list[object]:
    permits = found["permits"]
    fullest = max(found["spools"], key=lambda spool: float(spool["used"]), default=None)
    return [
        found["node"],
        found["roles"],
        found["url"],
        found["version"],
        found["started_at"],
        _state(found),
        f"{plain(fullest['name'])} {fullest['used']:.0%}" if fullest is not None else None,
        f"{permits['in_use']}/{permits['share']}" if permits is not None else None,
        found["open_breakers"],
    ]


def _state(found: dict[str, Any]) -> str:
    """Say in a few words how a process is."""
    if not found["answers"]:
        return str(found["trouble"])
    if found["troubles"]:
        return "; ".join(f"{part['name']}: {part['detail']}" for part in found["troubles"])
    return "ok" if found["is_current"] else "its configuration is not the one of now"
