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
    "no_writes_for",
    "empty_for",
    "partitions",
    "channels",
)
_HISTORY: Final = ("step", "at", "by")
_LIST: Final = ("id", "from", "to", "kind", "step", "since", "paused", "producers_stopped", "waits_for")

app = typer.Typer(
    name="lookup",
    help="Move NSQ topics between clusters.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
LookupUrl = Annotated[
    str, typer.Option("--server", "--url", "--bus-url", metavar="URL", help="Address of a lookup proxy.")
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="An NSQ topic with a route.", show_default=False)]
Id = Annotated[str, typer.Argument(metavar="ID", help="Migration, see bus lookup status.", show_default=False)]
To = Annotated[str, typer.Option("--to", metavar="NAME", help="Target cluster.", show_default=False)]
Body = dict[str, Any]


@dataclass(frozen=True)
class MigrationOptions:
    """The options of a migration."""

    kind: Annotated[
        str, typer.Option(help="Kind: unordered, ordered or expansion.  [default: by the topic]", show_default=False)
    ] = ""
    partitions: Annotated[
        int | None, typer.Option(help="With an expansion: the new number of partitions.", show_default=False)
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(help="Seconds within which every client repeats its lookup.", show_default="90"),
    ] = None

    def body(self, topic: str, to: str) -> Body:
        """Return the request body of the API."""
        given = {"kind": self.kind or None, "partitions": self.partitions, "interval": self.interval}
        return {"topic": topic, "to": to} | {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class ProxyOptions:
    """The proxy to call."""

    command: typer.Context
    address: LookupUrl = DEFAULT_LOOKUP
    api_key: ApiKey = ""

    @property
    def api(self) -> Api:
        """A connection to it."""
        options = ["--server", self.address] if self.address != DEFAULT_LOOKUP else []
        self.command.obj.append(self.address)
        return Api(self.address, self.api_key, options=options)


@app.command("plan", epilog="Example:  bus lookup plan orders --to nsq2")
@grouped
def plan_migration(topic: Topic, to: To, wanted: MigrationOptions, output: Output, reached: ProxyOptions) -> None:
    """Show the steps of a migration and what is missing for it."""
    table = output.table("step", "producers", "consumers")
    with reached.api as api:
        found = api.call("POST", _PATH, body=wanted.body(topic, to) | {"dry_run": True})
    if output.as_json:
        print_json(found)
        return
    print_fields({name: found[name] for name in ("topic", "from", "to", "kind", "partitions", "interval")})
    table.show([one | {"producers": one["produce"] or "none", "consumers": one["consume"]} for one in found["steps"]])
    sys.stdout.writelines(f"creates   {plain(line)}\n" for line in found["makes"])
    sys.stdout.writelines(f"missing   {plain(line)}\n" for line in found["missing"])


@app.command("start", epilog="Example:  bus lookup start orders --to nsq2")
@grouped
def start_migration(topic: Topic, to: To, wanted: MigrationOptions, output: Output, reached: ProxyOptions) -> None:
    """Start a migration; steps follow automatically.

    Each step is taken once the evidence for it is there.
    """
    _call("POST", _PATH, wanted.body(topic, to), output, reached)


@app.command("status", epilog="Example:  bus lookup status orders-1")
@grouped
def show_migrations(
    migration_id: Annotated[str, typer.Argument(metavar="ID", help="Migration.  [default: all]")] = "",
    *,
    output: Output,
    reached: ProxyOptions,
) -> None:
    """Show migrations: step, conditions, state of both clusters."""
    if migration_id:
        _call("GET", _path(migration_id), None, output, reached)
        return
    table = output.table(*_LIST)
    with reached.api as api:
        found = api.call("GET", _PATH)
    if output.as_json:
        print_json(found)
    else:
        table.show([{**one, "producers_stopped": _stopped(one), "waits_for": _waits(one)} for one in found["items"]])


@app.command("advance", epilog="Example:  bus lookup advance orders-1")
@grouped
def advance_migration(
    migration_id: Id,
    output: Output,
    reached: ProxyOptions,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Take the next step without evidence.

    The risk is shown first.
    """
    with reached.api as api:
        found = api.call("GET", _path(migration_id))
    if not yes and not found["ended"]:
        _ask(found)
    _call("POST", f"{_path(migration_id)}/advance", {"step": found["step"]}, output, reached)


@app.command("pause", epilog="Example:  bus lookup pause orders-1")
@grouped
def pause_migration(migration_id: Id, output: Output, reached: ProxyOptions) -> None:
    """Pause a migration; the present routes stay in force."""
    _call("POST", f"{_path(migration_id)}/pause", {}, output, reached)


@app.command("resume", epilog="Example:  bus lookup resume orders-1")
@grouped
def resume_migration(migration_id: Id, output: Output, reached: ProxyOptions) -> None:
    """Resume a migration."""
    _call("POST", f"{_path(migration_id)}/resume", {}, output, reached)


@app.command("rollback", epilog="Example:  bus lookup rollback orders-1")
@grouped
def roll_back_migration(migration_id: Id, output: Output, reached: ProxyOptions) -> None:
    """Return to the former route.

    These steps also wait for evidence.
    """
    _call("POST", f"{_path(migration_id)}/rollback", {}, output, reached)


@app.command("failover", epilog="Example:  bus lookup failover north --to nsq2")
@grouped
def fail_over(
    room: Annotated[
        str, typer.Argument(metavar="ROOM", help="Room or cluster to replace; default: list failovers.")
    ] = "",
    to: Annotated[str, typer.Option(metavar="NAME", help="Cluster to produce to instead.", show_default=False)] = "",
    end: Annotated[
        bool,
        typer.Option(
            "--end", help="Produce to the room again; repeated when the other cluster is empty, remove the failover."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the room is reachable, or messages are queued.")
    ] = False,
    *,
    output: Output,
    reached: ProxyOptions,
) -> None:
    """Produce the topics of a lost room to another cluster.

    Takes effect at once, without evidence. Messages in the room are consumed when it is available again: messages with
    a key can then be out of order, and those of ordered topics are. Refused while its clusters are reachable; use bus
    lookup start then.
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


def _call(method: str, path: str, body: Body | None, output: Output, reached: ProxyOptions) -> None:
    """Call the API for a migration, and print the migration."""
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
    """Ask for confirmation of the risk; raises without a terminal."""
    for line in found["waits"]:
        sys.stderr.write(f"missing: {plain(line)}\n")
    sys.stderr.write(f"risk: {plain(found['risk'])}\n")
    if not sys.stdin.isatty():
        raise ConfigurationError("no step was taken: no terminal for the confirmation", hint="confirm with --yes")
    typer.confirm(f"Go from {plain(found['step'])} to {plain(found['next'])}?", abort=True, err=True)


def _show(found: Body, sides: Table, history: Table) -> None:
    names = ("id", "topic", "from", "to", "kind", "partitions", "step", "since", "next", "paused", "by")
    print_fields(
        {name: found[name] for name in names}
        | {"producers": found["produce"] or "none", "consumers": found["consume"], "producers stopped": _stopped(found)}
        | {"waits for": _waits(found)}
        | ({"error": found["trouble"]} if found["trouble"] else {})
    )
    if found["evidence"] is not None:
        evidence = [found["evidence"][side] for side in ("source", "target")]
        sides.show([one | {"no_writes_for": one["unwritten_for"]} for one in evidence])
    history.show([one | {"by": one["by"] or "evidence"} for one in found["history"]])


def _stopped(found: Body) -> str:
    """Return for how long producers were stopped, or have been so far."""
    length = f"{found['producers_stopped_ms'] / 1000:.1f} s"
    return f"{length} so far" if found["producers_stopped"] else length


def _waits(found: Body) -> str:
    return "; ".join(found["waits"]) or "-"
