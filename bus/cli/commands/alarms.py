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
    help="List, acknowledge and silence alarms.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the incident, see bus alarms list.", show_default=False)]
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
    closed: Annotated[bool, typer.Option("--closed", help="Include closed incidents.")] = False,
    *,
    output: Output,
    server: Server,
) -> None:
    """List open incidents, newest first.

    An incident contains all alarms with the same cause.
    """
    table = output.table("state", "severity", "summary", "alarms", "jobs", "cause", "opened_at", "closed_at", "id")
    with server.api() as api:
        found = api.call("GET", _PATH, query={"closed": str(closed).lower()})
    if output.as_json:
        print_json(found)
        return
    table.show([_line(one) for one in found["items"]])
    if not found["watched"]:
        sys.stderr.write("no process evaluates alarms, so no notifications are sent; start one with: bus run alarms\n")


@app.command("show", epilog="Example:  bus alarms show 019a2f4e-0000-7000-8000-000000000000")
@grouped
def show_alarm(id_: Id, as_json: AsJson = False, *, server: Server) -> None:
    """Show an incident: its alarms, next steps and notifications."""
    with server.api() as api:
        found = api.call("GET", f"{_PATH}/{id_}")
    if as_json:
        print_json(found)
        return
    sys.stdout.writelines(f"{line}\n" for line in _story(found))


@app.command("ack", epilog='Example:  bus alarms ack 019a2f4e-0000-7000-8000-000000000000 --note "looking into it"')
@grouped
def acknowledge(
    id_: Id,
    note: Annotated[str, typer.Option(help="Note for others.")] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Acknowledge an incident.

    No further notifications are sent until it is closed or becomes more severe.
    """
    with server.api() as api:
        found = api.call("POST", f"{_PATH}/{id_}/acknowledge", body={"note": note})
    if as_json:
        print_json(found)
    else:
        show(_line(found), as_json=False)


@app.command("silence", epilog=_SILENCE)
@grouped
def silence(
    cause: Annotated[str, typer.Option(help="Cause, see bus alarms list; * matches any text.")] = "",
    rule: Annotated[str, typer.Option(help="Rule, see bus alarms rules; * matches any text.")] = "",
    destination: Annotated[str, typer.Option(help="Destination code; * matches any text.")] = "",
    subscription: Annotated[str, typer.Option(help="Subscription name; * matches any text.")] = "",
    duration: Annotated[str, typer.Option("--for", help="Duration, such as 30m or 2d; at most 30d.")] = "1h",
    note: Annotated[str, typer.Option(help="Reason.")] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Send no notifications for matching alarms for a time.

    The alarms are still listed.
    """
    matches = {"cause": cause, "rule": rule, "destination": destination, "subscription": subscription}
    wanted = {**matches, "for": duration, "note": note}
    with server.api() as api:
        show(api.call("POST", _SILENCES, body=wanted), as_json=as_json)


@app.command("silences", epilog="Example:  bus alarms silences")
@grouped
def list_silences(output: Output, server: Server) -> None:
    """List silences."""
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
    """End a silence."""
    with server.api() as api:
        api.call("DELETE", f"{_SILENCES}/{id_}")
    show({"ended": id_}, as_json=as_json)


@app.command("rules", epilog="Example:  bus alarms rules")
@grouped
def list_rules(output: Output, server: Server) -> None:
    """List the alarm rules with their limits and durations."""
    table = output.table("name", "hold", "clear", "limit", "disabled", "description")
    with server.api() as api:
        found = api.call("GET", "/api/v1/alarm-rules")
    if output.as_json:
        print_json(found)
    else:
        table.show([one | {"disabled": one["off"], "description": one["says"]} for one in found["items"]])


@app.command("test", epilog="Example:  bus alarms test ops")
@grouped
def try_channels(
    channel: Annotated[
        str, typer.Argument(metavar="CHANNEL", help="Channel, a name of alarm_channels.  [default: all]")
    ] = "",
    *,
    output: Output,
    server: Server,
) -> None:
    """Send a test notification to channels.

    Exit 1: a channel did not accept it, or there are no channels.
    """
    table = output.table("channel", "result")
    with server.api(timeout=_PATIENCE) as api:
        results = api.call("POST", "/api/v1/alarm-trials", body={"channel": channel})["results"]
    if output.as_json:
        print_json({"results": results})
    elif not results:
        sys.stderr.write("no channel is configured: add one to alarm_channels in bus.toml, see docs/alarms.md\n")
    else:
        table.show([{"channel": name, "result": error or "sent"} for name, error in results.items()])
    if not results or any(results.values()):
        raise typer.Exit(1)


def _line(found: Mapping[str, Any]) -> dict[str, Any]:
    first = found["alarms"][0]
    return {
        "state": found["state"],
        "severity": found["severity"],
        "summary": first["what"],
        "alarms": len(found["alarms"]) + found["left_out"],
        "jobs": ", ".join(dict.fromkeys(_cure(cure) for one in found["alarms"] for cure in one["cures"])),
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
        yield f"  next step: {first['next_step']}"
    yield from (f"  {line}" for line in _cures(first))
    if taken := found["acknowledged"]:
        yield f"  acknowledged by {taken['by']} at {taken['at']}" + (f": {taken['note']}" if taken["note"] else "")
    for one in found["told"]:
        yield f"  channel {one['channel']}: " + (f"notified at {one['at']}" if one["at"] else "not notified yet")
    if others:
        yield "  alarms with the same cause:"
        for one in others:
            yield f"    {one['what']}"
            yield from (f"      {line}" for line in _cures(one))
    if found["left_out"]:
        yield f"    and {found['left_out']} more"


def _cures(alarm: Mapping[str, Any]) -> list[str]:
    return [f"running job: {_cure(one)}, by {one['by']} ({one['id']})" for one in alarm["cures"]]


def _cure(one: Mapping[str, Any]) -> str:
    """Return a job as it is now, such as "resend 340/5000"."""
    how_far = one["state"] if one["total"] is None else f"{one['ended']}/{one['total']}"
    return f"{one['kind']} {how_far}"
