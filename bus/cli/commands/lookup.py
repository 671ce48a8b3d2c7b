"""``bus lookup``: migrations of topics between clusters of NSQ."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from bus.cli.api import Api
from bus.cli.grouping import grouped
from bus.cli.options import ApiKey, Output
from bus.cli.output import plain, print_fields, print_json
from bus.cli.tables import Table
from bus.errors import ConfigurationError

DEFAULT_LOOKUP: Final = "http://127.0.0.1:4161"
_PATH: Final = "/api/v1/lookup/migrations"
_FAILOVERS: Final = "/api/v1/lookup/failovers"
_ROOM: Final = ("room", "phase", "since", "lost", "to", "by")
_SIDE: Final = (
    "cluster",
    "producers",
    "consumers",
    "depth",
    "in_flight",
    "deferred",
    "written",
    "unwritten_for",
    "empty_for",
    "partitions",
    "channels",
)
_HISTORY: Final = ("step", "at", "by")
_LIST: Final = ("id", "from", "to", "kind", "step", "since", "paused", "stopped", "waits")

app = typer.Typer(
    name="lookup",
    help="Topics of NSQ that move to another cluster, as the lookup proxies do it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
LookupUrl = Annotated[str, typer.Option("--server", "--url", metavar="URL", help="Address of a lookup proxy.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="An NSQ topic with a route.", show_default=False)]
Id = Annotated[str, typer.Argument(metavar="ID", help="As bus lookup status names it.", show_default=False)]
To = Annotated[str, typer.Option("--to", metavar="NAME", help="The cluster to move to.", show_default=False)]
Body = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """How a topic is to be moved."""

    kind: Annotated[
        str, typer.Option(help="unordered, ordered or expansion; without, as the topic is.", show_default=False)
    ] = ""
    partitions: Annotated[
        int | None, typer.Option(help="Of an expansion: how many the topic is to have.", show_default=False)
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(help="Seconds within which every client looks up again.", show_default="90"),
    ] = None

    def body(self, topic: str, to: str) -> Body:
        """Return it as the API takes it."""
        given = {"kind": self.kind or None, "partitions": self.partitions, "interval": self.interval}
        return {"topic": topic, "to": to} | {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Reached:
    """Which proxy."""

    address: LookupUrl = DEFAULT_LOOKUP
    api_key: ApiKey = ""

    @property
    def api(self) -> Api:
        """A connection to it."""
        options = ["--server", self.address] if self.address != DEFAULT_LOOKUP else []
        return Api(self.address, self.api_key, options=options)


@app.command("plan", epilog="Example:  bus lookup plan orders --to nsq2")
@grouped
def plan_migration(topic: Topic, to: To, wanted: Wanted, output: Output, reached: Reached) -> None:
    """Show what a migration would do, what is made on the target first, and what is missing."""
    table = output.table("step", "producers", "consumers")
    with reached.api as api:
        found = api.call("POST", _PATH, body=wanted.body(topic, to) | {"dry_run": True})
    if output.as_json:
        print_json(found)
        return
    print_fields({name: found[name] for name in ("topic", "from", "to", "kind", "partitions", "interval")})
    table.show([one | {"producers": one["produce"] or "nobody", "consumers": one["consume"]} for one in found["steps"]])
    sys.stdout.writelines(f"will do   {plain(line)}\n" for line in found["makes"])
    sys.stdout.writelines(f"missing   {plain(line)}\n" for line in found["missing"])


@app.command("start", epilog="Example:  bus lookup start orders --to nsq2")
@grouped
def start_migration(topic: Topic, to: To, wanted: Wanted, output: Output, reached: Reached) -> None:
    """Begin to move a topic: each step is taken by itself once there is the evidence for it."""
    _call("POST", _PATH, wanted.body(topic, to), output, reached)


@app.command("status", epilog="Example:  bus lookup status orders-1")
@grouped
def show_migrations(
    migration_id: Annotated[str, typer.Argument(metavar="ID", help="This one; all without.")] = "",
    *,
    output: Output,
    reached: Reached = Reached(),
) -> None:
    """Show where migrations are, since when, what they wait for, and what is seen of both clusters."""
    if migration_id:
        _call("GET", _path(migration_id), None, output, reached)
        return
    table = output.table(*_LIST)
    with reached.api as api:
        found = api.call("GET", _PATH)
    if output.as_json:
        print_json(found)
    else:
        table.show([{**one, "stopped": _stopped(one), "waits": _waits(one)} for one in found["items"]])


@app.command("advance", epilog="Example:  bus lookup advance orders-1")
@grouped
def advance_migration(
    migration_id: Id,
    output: Output,
    reached: Reached,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take the next step although evidence for it is missing; what may come of it is said first."""
    with reached.api as api:
        found = api.call("GET", _path(migration_id))
    if not yes and not found["ended"]:
        _ask(found)
    _call("POST", f"{_path(migration_id)}/advance", {"step": found["step"]}, output, reached)


@app.command("pause", epilog="Example:  bus lookup pause orders-1")
@grouped
def pause_migration(migration_id: Id, output: Output, reached: Reached) -> None:
    """Take no further step until it is resumed; the routes of the step of now stay in force."""
    _call("POST", f"{_path(migration_id)}/pause", {}, output, reached)


@app.command("resume", epilog="Example:  bus lookup resume orders-1")
@grouped
def resume_migration(migration_id: Id, output: Output, reached: Reached) -> None:
    """Take steps again."""
    _call("POST", f"{_path(migration_id)}/resume", {}, output, reached)


@app.command("rollback", epilog="Example:  bus lookup rollback orders-1")
@grouped
def roll_back_migration(migration_id: Id, output: Output, reached: Reached) -> None:
    """Go back to the route of before, by steps that wait for evidence as well."""
    _call("POST", f"{_path(migration_id)}/rollback", {}, output, reached)


@app.command("failover", epilog="Example:  bus lookup failover north --to nsq2")
@grouped
def fail_over(
    room: Annotated[str, typer.Argument(metavar="ROOM", help="A room, or a cluster; all that were without.")] = "",
    to: Annotated[
        str, typer.Option(metavar="NAME", help="The cluster to produce to instead.", show_default=False)
    ] = "",
    end: Annotated[
        bool,
        typer.Option("--end", help="Produce there again; once more, when all is consumed elsewhere, to forget it."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also while it answers, or something waits.")] = False,
    *,
    output: Output,
    reached: Reached = Reached(),
) -> None:
    """Have the topics of a room that is lost produced to another cluster at once, without evidence.

    What the room holds is not lost, and is consumed when it comes back: messages of a key may be out of order then, and
    those of ordered topics are. Refused while its clusters answer: bus lookup start moves topics without that.
    """
    table = output.table(*_ROOM)
    with reached.api as api:
        if not room:
            found = api.call("GET", _FAILOVERS)
        elif end:
            found = api.call("POST", f"{_FAILOVERS}/{quote(room, safe='')}/end", body={"force": force})
        else:
            found = api.call("POST", _FAILOVERS, body={"room": room, "to": to, "force": force})
    if output.as_json:
        print_json(found)
    else:
        table.show(found.get("items", [found]))


def _call(method: str, path: str, body: Body | None, output: Output, reached: Reached) -> None:
    """Look at a migration or have something done to it, and show it as it is then."""
    tables = output.tables(_SIDE, _HISTORY)
    with reached.api as api:
        found = api.call(method, path, body=body)
    if output.as_json:
        print_json(found)
    else:
        _show(found, *tables)


def _path(migration_id: str) -> str:
    return f"{_PATH}/{quote(migration_id, safe='')}"


def _ask(found: Body) -> None:
    """Go on once a person agrees to what may come of it; on a terminal alone."""
    for line in found["waits"]:
        sys.stderr.write(f"missing: {plain(line)}\n")
    sys.stderr.write(f"without it: {plain(found['risk'])}\n")
    if not sys.stdin.isatty():
        raise ConfigurationError("no step was taken: nobody can be asked here", hint="say --yes to go on")
    typer.confirm(f"Go from {plain(found['step'])} to {plain(found['next'])}?", abort=True, err=True)


def _show(found: Body, sides: Table, history: Table) -> None:
    names = ("id", "topic", "from", "to", "kind", "partitions", "step", "since", "next", "paused", "by")
    print_fields(
        {name: found[name] for name in names}
        | {"producers": found["produce"] or "nobody", "consumers": found["consume"], "stopped": _stopped(found)}
        | {"waits for": _waits(found)}
        | ({"trouble": found["trouble"]} if found["trouble"] else {})
    )
    if found["evidence"] is not None:
        sides.show([found["evidence"][side] for side in ("source", "target")])
    history.show([one | {"by": one["by"] or "evidence"} for one in found["history"]])


def _stopped(found: Body) -> str:
    """Return for how long producers were stopped, and whether they are still."""
    length = f"{found['producers_stopped_ms'] / 1000:.1f} s"
    return f"{length}, still" if found["producers_stopped"] else length


def _waits(found: Body) -> str:
    return "; ".join(found["waits"]) or "-"
