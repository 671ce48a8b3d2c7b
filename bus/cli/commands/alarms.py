"""``bus alarms``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from bus.cli.commands.destinations import show
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server
from bus.cli.output import print_json

app = typer.Typer(
    name="alarms",
    help="What needs a person: who was told, who has taken it on, what is silenced.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Id = Annotated[str, typer.Argument(metavar="ID", help="As bus alarms list has it.", show_default=False)]
_PATH: Final = "/api/v1/alarms"
_SILENCE: Final = """\b
Examples:
  bus alarms silence --destination orders --for 2h --note upgrade
  bus alarms silence --cause part:kafka --for 30m"""
_SILENCES: Final = "/api/v1/alarm-silences"
_PATIENCE: Final = 60.0


@app.command("list", epilog="Example:  bus alarms list")
@grouped
def list_alarms(
    closed: Annotated[bool, typer.Option("--closed", help="Those that are over as well.")] = False,
    *,
    output: Output,
    server: Server,
) -> None:
    """List what needs a person, the newest first: all that has one cause is one line."""
    table = output.table("state", "severity", "what", "alarms", "under_way", "cause", "opened_at", "closed_at", "id")
    with server.api() as api:
        found = api.call("GET", _PATH, query={"closed": str(closed).lower()})
    if output.as_json:
        print_json(found)
        return
    table.show([_line(one) for one in found["items"]])
    if not found["watched"]:
        sys.stderr.write("no process watches for alarms, so that nobody is told; start one: bus run alarms\n")


@app.command("show", epilog="Example:  bus alarms show 019a2f4e-0000-7000-8000-000000000000")
@grouped
def show_alarm(id_: Id, as_json: AsJson = False, *, server: Server) -> None:
    """Show one with all that has the same cause, what to do, and which channels were told."""
    with server.api() as api:
        found = api.call("GET", f"{_PATH}/{id_}")
    if as_json:
        print_json(found)
        return
    sys.stdout.writelines(f"{line}\n" for line in _story(found))


@app.command("ack", epilog='Example:  bus alarms ack 019a2f4e-0000-7000-8000-000000000000 --note "I am on it"')
@grouped
def acknowledge(
    id_: Id,
    note: Annotated[str, typer.Option(help="What the others should know.")] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Take one on: nobody else is told of it, and nobody again, until it is over or becomes worse."""
    with server.api() as api:
        found = api.call("POST", f"{_PATH}/{id_}/acknowledge", body={"note": note})
    if as_json:
        print_json(found)
    else:
        show(_line(found), as_json=False)


@app.command("silence", epilog=_SILENCE)
@grouped
def silence(
    cause: Annotated[str, typer.Option(help="Of an incident, see bus alarms list; * is any text.")] = "",
    rule: Annotated[str, typer.Option(help="A rule, see bus alarms rules; * is any text.")] = "",
    destination: Annotated[str, typer.Option(help="Code; * is any text.")] = "",
    subscription: Annotated[str, typer.Option(help="Name; * is any text.")] = "",
    duration: Annotated[str, typer.Option("--for", help="Such as 30m or 2d, 30d at most.")] = "1h",
    note: Annotated[str, typer.Option(help="Why.")] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Have nobody told of alarms that match, for a while; they are still shown."""
    matches = {"cause": cause, "rule": rule, "destination": destination, "subscription": subscription}
    wanted = {**matches, "for": duration, "note": note}
    with server.api() as api:
        show(api.call("POST", _SILENCES, body=wanted), as_json=as_json)


@app.command("silences", epilog="Example:  bus alarms silences")
@grouped
def list_silences(output: Output, server: Server) -> None:
    """List what nobody is told of."""
    table = output.table("until", "cause", "rule", "destination", "subscription", "by", "note", "id")
    with server.api() as api:
        found = api.call("GET", _SILENCES)
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])


@app.command("unsilence", epilog="Example:  bus alarms unsilence 019a2f4e-0000-7000-8000-000000000000")
@grouped
def unsilence(id_: Id, as_json: AsJson = False, *, server: Server) -> None:
    """End a silence before its time."""
    with server.api() as api:
        api.call("DELETE", f"{_SILENCES}/{id_}")
    show({"ended": id_}, as_json=as_json)


@app.command("rules", epilog="Example:  bus alarms rules")
@grouped
def list_rules(output: Output, server: Server) -> None:
    """List the rules in force: how long each must last until people are told, and its limit."""
    table = output.table("name", "hold", "clear", "limit", "off", "says")
    with server.api() as api:
        found = api.call("GET", "/api/v1/alarm-rules")
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])


@app.command("test", epilog="Example:  bus alarms test ops")
@grouped
def try_channels(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="A name of alarm_channels; all without.")] = "",
    *,
    output: Output,
    server: Server,
) -> None:
    """Tell channels that they are tried, and say which have taken it; exit 1 when one has not."""
    table = output.table("channel", "result")
    with server.api(timeout=_PATIENCE) as api:
        results = api.call("POST", "/api/v1/alarm-trials", body={"channel": channel})["results"]
    if output.as_json:
        print_json({"results": results})
    elif not results:
        sys.stderr.write("there are no channels: name some in alarm_channels of bus.toml, see docs/alarms.md\n")
    else:
        table.show([{"channel": name, "result": error or "taken"} for name, error in results.items()])
    if not results or any(results.values()):
        raise typer.Exit(1)


def _line(found: Mapping[str, Any]) -> dict[str, Any]:
    first = found["alarms"][0]
    return {
        "state": found["state"],
        "severity": found["severity"],
        "what": first["what"],
        "alarms": len(found["alarms"]) + found["left_out"],
        "under_way": ", ".join(dict.fromkeys(_cure(cure) for one in found["alarms"] for cure in one["cures"])),
        "cause": found["cause"],
        "opened_at": found["opened_at"],
        "closed_at": found["closed_at"],
        "id": found["id"],
    }


def _story(found: Mapping[str, Any]) -> Iterator[str]:
    first, *others = found["alarms"]
    yield f"{found['severity']}: {first['what']}"
    yield f"  {found['state']}, since {found['opened_at']}" + (
        f" until {found['closed_at']}" if found["closed_at"] else ""
    )
    if not found["closed_at"]:
        yield f"  what to do: {first['next_step']}"
    yield from (f"  {line}" for line in _cures(first))
    if taken := found["acknowledged"]:
        yield f"  {taken['by']} has taken it on at {taken['at']}" + (f": {taken['note']}" if taken["note"] else "")
    for one in found["told"]:
        yield f"  channel {one['channel']}: " + (f"told at {one['at']}" if one["at"] else "does not take it yet")
    if others:
        yield "  from the same cause:"
        for one in others:
            yield f"    {one['what']}"
            yield from (f"      {line}" for line in _cures(one))
    if found["left_out"]:
        yield f"    and {found['left_out']} more"


def _cures(alarm: Mapping[str, Any]) -> list[str]:
    return [f"under way: {_cure(one)}, by {one['by']} ({one['id']})" for one in alarm["cures"]]


def _cure(one: Mapping[str, Any]) -> str:
    """Return a job as it is now, such as "resend 340/5000"."""
    how_far = one["state"] if one["total"] is None else f"{one['ended']}/{one['total']}"
    return f"{one['kind']} {how_far}"
