"""``bus lookup``: migrations of topics between clusters of NSQ."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from bus.cli.api import Api
from bus.cli.grouping import grouped
from bus.cli.options import ApiKey, AsJson
from bus.cli.output import plain, print_fields, print_json, print_table
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
_LIST: Final = ("id", "from", "to", "kind", "step", "since", "paused", "stopped", "waits")

app = typer.Typer(
    name="lookup",
    help="Topics of NSQ that move to another cluster, as the lookup proxies do it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
LookupUrl = Annotated[str, typer.Option("--url", help="Where one of the lookup proxies is.")]
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
    """Which proxy, and how its answers are shown."""

    as_json: AsJson = False
    url: LookupUrl = DEFAULT_LOOKUP
    api_key: ApiKey = ""

    @property
    def api(self) -> Api:
        """A connection to it."""
        return Api(self.url, self.api_key)


@app.command("plan", epilog="Example:  bus lookup plan orders --to nsq2")
@grouped
def plan_migration(topic: Topic, to: To, wanted: Wanted, reached: Reached) -> None:
    """Show what a migration would do, what is made on the target first, and what is missing."""
    with reached.api as api:
        found = api.call("POST", _PATH, body=wanted.body(topic, to) | {"dry_run": True})
    if reached.as_json:
        print_json(found)
        return
    print_fields({name: found[name] for name in ("topic", "from", "to", "kind", "partitions", "interval")})
    steps = [[one["step"], one["produce"] or "nobody", one["consume"]] for one in found["steps"]]
    print_table(("step", "producers", "consumers"), steps)
    sys.stdout.writelines(f"will do   {plain(line)}\n" for line in found["makes"])
    sys.stdout.writelines(f"missing   {plain(line)}\n" for line in found["missing"])


@app.command("start", epilog="Example:  bus lookup start orders --to nsq2")
@grouped
def start_migration(topic: Topic, to: To, wanted: Wanted, reached: Reached) -> None:
    """Begin to move a topic: each step is taken by itself once there is the evidence for it."""
    with reached.api as api:
        _show(api.call("POST", _PATH, body=wanted.body(topic, to)), as_json=reached.as_json)


@app.command("status", epilog="Example:  bus lookup status orders-1")
@grouped
def show_migrations(
    migration_id: Annotated[str, typer.Argument(metavar="ID", help="This one; all without.")] = "",
    reached: Reached = Reached(),
) -> None:
    """Show where migrations are, since when, what they wait for, and what is seen of both clusters."""
    with reached.api as api:
        found = api.call("GET", _path(migration_id) if migration_id else _PATH)
    if migration_id or reached.as_json:
        _show(found, as_json=reached.as_json)
        return
    rows = [{**one, "stopped": _stopped(one), "waits": _waits(one)} for one in found["items"]]
    print_table(_LIST, [[one[column] for column in _LIST] for one in rows])


@app.command("advance", epilog="Example:  bus lookup advance orders-1")
@grouped
def advance_migration(
    migration_id: Id,
    reached: Reached,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take the next step although evidence for it is missing; what may come of it is said first."""
    with reached.api as api:
        found = api.call("GET", _path(migration_id))
        if not yes and not found["ended"]:
            _ask(found)
        after = api.call("POST", f"{_path(migration_id)}/advance", body={"step": found["step"]})
    _show(after, as_json=reached.as_json)


@app.command("pause", epilog="Example:  bus lookup pause orders-1")
@grouped
def pause_migration(migration_id: Id, reached: Reached) -> None:
    """Take no further step until it is resumed; the routes of the step of now stay in force."""
    _steer(migration_id, "pause", reached)


@app.command("resume", epilog="Example:  bus lookup resume orders-1")
@grouped
def resume_migration(migration_id: Id, reached: Reached) -> None:
    """Take steps again."""
    _steer(migration_id, "resume", reached)


@app.command("rollback", epilog="Example:  bus lookup rollback orders-1")
@grouped
def roll_back_migration(migration_id: Id, reached: Reached) -> None:
    """Go back to the route of before, by steps that wait for evidence as well."""
    _steer(migration_id, "rollback", reached)


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
    reached: Reached = Reached(),
) -> None:
    """Have the topics of a room that is lost produced to another cluster at once, without evidence.

    What the room holds is not lost, and is consumed when it comes back: messages of a key may be out of order then, and
    those of ordered topics are. Refused while its clusters answer: bus lookup start moves topics without that.
    """
    with reached.api as api:
        if not room:
            found = api.call("GET", _FAILOVERS)
        elif end:
            found = api.call("POST", f"{_FAILOVERS}/{quote(room, safe='')}/end", body={"force": force})
        else:
            found = api.call("POST", _FAILOVERS, body={"room": room, "to": to, "force": force})
    if reached.as_json:
        print_json(found)
        return
    print_table(_ROOM, [[one[column] for column in _ROOM] for one in found.get("items", [found])])


def _steer(migration_id: str, action: str, reached: Reached) -> None:
    with reached.api as api:
        _show(api.call("POST", f"{_path(migration_id)}/{action}", body={}), as_json=reached.as_json)


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


def _show(found: Body, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    names = ("id", "topic", "from", "to", "kind", "partitions", "step", "since", "next", "paused", "by")
    print_fields(
        {name: found[name] for name in names}
        | {"producers": found["produce"] or "nobody", "consumers": found["consume"], "stopped": _stopped(found)}
        | {"waits for": _waits(found)}
        | ({"trouble": found["trouble"]} if found["trouble"] else {})
    )
    if found["evidence"] is not None:
        sides = [found["evidence"][side] for side in ("source", "target")]
        print_table(_SIDE, [[side[column] for column in _SIDE] for side in sides])
    print_table(("step", "at", "by"), [[one["step"], one["at"], one["by"] or "evidence"] for one in found["history"]])


def _stopped(found: Body) -> str:
    """Return for how long producers were stopped, and whether they are still."""
    length = f"{found['producers_stopped_ms'] / 1000:.1f} s"
    return f"{length}, still" if found["producers_stopped"] else length


def _waits(found: Body) -> str:
    return "; ".join(found["waits"]) or "-"
