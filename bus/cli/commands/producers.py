"""``bus producers``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import print_json
from bus.cli.tables import Table

_PRODUCER: Final = ("source", "agent", "host", "key", "records", "oldest", "last_seen", "messages", "path")
_REFUSED: Final = ("source", "destination", "count", "status", "reason", "last", "example", "do")
_TURNED_AWAY: Final = ("whose", "why", "destination", "count", "last", "do")


@grouped
def producers(
    source: Annotated[str | None, typer.Option(help="Only of this source.")] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="How many producers at most.")] = 200,
    *,
    output: Output,
    server: Server,
) -> None:
    """Show who sends, what waits in their queues, and what of theirs is refused.

    Receivers remember who sends for a day, from their start on.
    """
    known, refused, turned_away = output.tables(_PRODUCER, _REFUSED, _TURNED_AWAY)
    query = {"limit": limit} | ({"source": source} if source is not None else {})
    with server.api() as api:
        found = api.call("GET", "/api/v1/producers", query=query)
    if output.as_json:
        print_json(found)
        return
    known.show([one | {"agent": one["agent"].partition(" (")[0]} for one in found["items"]])
    if found["left_out"]:
        sys.stderr.write(f"{found['left_out']} producers are not shown: --limit\n")
    _section("refused for good", refused, found["refused"])
    _section("refused for now", turned_away, found["turned_away"])
    for one in found["unheard"]:
        sys.stderr.write(f"{one['node']} does not answer, so what it alone knows is missing: {one['trouble']}\n")


def _section(name: str, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows and table.columns:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        table.show([one | {"do": one["next_step"]} for one in rows])
