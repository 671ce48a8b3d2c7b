"""``bus producers``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import print_json
from bus.cli.tables import Table

_PRODUCER: Final = ("source", "agent", "host", "key", "queued", "oldest_queued", "last_seen", "messages", "path")
_REJECTED: Final = ("source", "destination", "count", "status", "reason", "last_at", "example", "next_step")
_THROTTLED: Final = ("sender", "limit", "destination", "count", "last_at", "next_step")


@grouped
def producers(
    source: Annotated[str | None, typer.Option(help="Only producers of this name.")] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of producers.")] = 200,
    *,
    output: Output,
    server: Server,
) -> None:
    """Show producers, their queues and rejected messages.

    Receivers keep this for a day, in memory.
    """
    known, rejected, throttled = output.tables(_PRODUCER, _REJECTED, _THROTTLED)
    query = {"limit": limit} | ({"source": source} if source is not None else {})
    with server.api() as api:
        found = api.call("GET", "/api/v1/producers", query=query)
    if output.as_json:
        print_json(found)
        return
    known.show([_producer(one) for one in found["items"]])
    if found["left_out"]:
        sys.stderr.write(f"{found['left_out']} more producers: raise --limit\n")
    _section("rejected", rejected, found["refused"])
    _section("throttled", throttled, [_throttled(one) for one in found["turned_away"]])
    for one in found["unheard"]:
        sys.stderr.write(f"{one['node']} is unreachable, its figures are missing: {one['trouble']}\n")


def _producer(found: dict[str, Any]) -> dict[str, Any]:
    agent = found["agent"].partition(" (")[0]
    return found | {"agent": agent, "queued": found["records"], "oldest_queued": found["oldest"]}


def _throttled(found: dict[str, Any]) -> dict[str, Any]:
    return found | {"sender": found["whose"], "limit": found["why"]}


def _section(name: str, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows and table.columns:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        table.show([one | {"last_at": one["last"]} for one in rows])
