"""``bus subscription``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer

from bus.cli.api import destination_path, put_or_patch, subscription_path
from bus.cli.commands.destinations import Code, Name, show
from bus.cli.commands.sampling import send_sample
from bus.cli.conditions import COLUMNS, condition_fields, conditions
from bus.cli.grouping import grouped
from bus.cli.options import SERVER_HELP, AsJson, Output, Server, read_pairs
from bus.cli.output import print_fields, print_json, suggest

_SAMPLE = """\b
Examples:
  echo '{"order": 42}' | bus subscription sample order.cancelled billing
  bus subscription sample order.cancelled billing order.json --json"""
app = typer.Typer(name="subscription", help="Manage subscriptions.", no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True)
class _Server(Server):
    """The bus, in a command whose ``--url`` is the subscriber's."""

    address: Annotated[
        str, typer.Option("--server", "--bus-url", metavar="URL", envvar="BUS_URL", help=SERVER_HELP)
    ] = ""


@app.command(
    "set",
    epilog="Example:  bus subscription set order.cancelled billing --url https://billing.example/hook --secret auto",
)
@grouped
def set_subscription(
    code: Code,
    name: Name,
    target: Annotated[
        str | None, typer.Option("--url", help="URL of the subscriber: messages are POSTed to it.")
    ] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="Concurrency limit: requests at once.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Maximum messages in one POST; above 1, every POST is a batch.")
    ] = None,
    batch_format: Annotated[str | None, typer.Option(help="Format of batches: ndjson, or json for an array.")] = None,
    on_failure: Annotated[
        str | None, typer.Option(help="With an ordered destination: block the key, park the message, or skip it.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Time-out of one POST in seconds.")] = None,
    rate: Annotated[float | None, typer.Option(help="Maximum deliveries per second.")] = None,
    retry: Annotated[
        str | None,
        typer.Option(help='Delays before retries: "5s,30s,2m", or JSON {"first":"5s","factor":3,"max":"12h"}.'),
    ] = None,
    retry_max_age: Annotated[str | None, typer.Option(help="Stop retrying after this time, such as 7d.")] = None,
    retry_max_attempts: Annotated[int | None, typer.Option(help="Stop retrying after this number of attempts.")] = None,
    dead_on: Annotated[
        str | None, typer.Option(help='Terminal statuses, which are not retried, such as "400,422"; "" for none.')
    ] = None,
    secret: Annotated[str | None, typer.Option(help='Signing secret: whsec_..., or "auto" to create one.')] = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter", help="Deliver only matching messages: JMESPath over body, headers, biz_id, key, source."
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "--key-header", help="Header NAME=VALUE of every POST; repeatable.")
    ] = None,
    routing_pattern: Annotated[
        str | None, typer.Option(help='Deliver only these routing keys, such as "eu.*.shoes" or "eu.#".')
    ] = None,
    stuck_after: Annotated[
        str | None, typer.Option(help="Redelivery time-out: send an unconfirmed message again after, such as 5m.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Owner that is notified of its alarms, see alarm_channels.")] = None,
    alarms: Annotated[
        str | None,
        typer.Option(help='Alarm limits: "backlog=1000, age=15m, p99=2s, error_rate=0.2"; "" for the defaults.'),
    ] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--no-paused", help="Hold messages, or deliver them.")] = None,
    as_json: AsJson = False,
    *,
    server: _Server,
) -> None:
    """Create a subscription, or change the given options of one.

    A new signing secret is shown once.
    """
    fields = {
        "url": target,
        "max_concurrency": max_concurrency,
        "batch": batch,
        "batch_format": batch_format,
        "on_failure": on_failure,
        "timeout_seconds": timeout,
        "rate": rate,
        "retry": _retry(retry),
        "retry_max_age": retry_max_age,
        "retry_max_attempts": retry_max_attempts,
        "dead_on": _statuses(dead_on),
        "secret": secret,
        "filter": filter_,
        "headers": read_pairs(header, "--header"),
        "routing_pattern": routing_pattern,
        "stuck_after": stuck_after,
        "owner": owner,
        "alarms": _alarms(alarms),
        "paused": paused,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    with server.api() as api:
        show(put_or_patch(api, subscription_path(code, name), given), as_json=as_json)
    if not as_json:
        suggest(
            server.options,
            ("test the subscriber", ["subscription", "sample", code, name, "FILE"]),
            ("send a message", ["send", code, "FILE"]),
        )


def _alarms(text: str | None) -> dict[str, str | float] | None:
    if text is None:
        return None
    found: dict[str, str | float] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"expected NAME=LIMIT such as backlog=1000, not {pair!r}", param_hint="--alarms")
        found[name] = _number(value) if name in {"backlog", "error_rate"} else value
    return found


def _number(text: str) -> float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="--alarms") from error


def _statuses(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(status) for status in text.split(",") if status.strip()]
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a list of statuses such as 400,422", param_hint="--dead-on"
        ) from error


def _retry(text: str | None) -> Any:
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        return [wait.strip() for wait in text.split(",")]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"{text!r} is not JSON: {error}", param_hint="--retry") from error


@app.command("list", epilog="Example:  bus subscription list order.cancelled")
@grouped
def list_subscriptions(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Only subscriptions of this destination.")] = "",
    *,
    output: Output,
    server: Server,
) -> None:
    """List subscriptions with state, queue and last error."""
    table = output.table("destination", "name", *COLUMNS, "url", "max_concurrency", "timeout_seconds")
    with server.api() as api:
        codes = [code] if code else [item["code"] for item in api.call("GET", "/api/v1/destinations")["items"]]
        found = [
            {"destination": each, **item}
            for each in codes
            for item in api.call("GET", f"{destination_path(each)}/subscriptions")["items"]
        ]
        known = conditions(api, code or None)
    for one in found:
        one["condition"] = known.get((one["destination"], one["name"]))
    if output.as_json:
        print_json({"items": found, "next": None})
    else:
        table.show([one | condition_fields(one["condition"]) for one in found])


@app.command("show", epilog="Example:  bus subscription show order.cancelled billing")
@grouped
def show_subscription(code: Code, name: Name, as_json: AsJson = False, *, server: Server) -> None:
    """Show a subscription with state, queue and last error."""
    with server.api() as api:
        found = api.call("GET", subscription_path(code, name))
        condition = conditions(api, code, name).get((code, name))
    if as_json:
        print_json({**found, "condition": condition})
    else:
        print_fields(found | condition_fields(condition))


@app.command("pause", epilog="Example:  bus subscription pause order.cancelled billing")
@grouped
def pause_subscription(code: Code, name: Name, as_json: AsJson = False, *, server: Server) -> None:
    """Hold the messages of a subscription; none is lost."""
    _set_paused(code, name, server, paused=True, as_json=as_json)


@app.command("resume", epilog="Example:  bus subscription resume order.cancelled billing")
@grouped
def resume_subscription(code: Code, name: Name, as_json: AsJson = False, *, server: Server) -> None:
    """Deliver the held messages and continue."""
    _set_paused(code, name, server, paused=False, as_json=as_json)


def _set_paused(code: str, name: str, server: Server, *, paused: bool, as_json: bool) -> None:
    with server.api() as api:
        show(api.call("PATCH", subscription_path(code, name), body={"paused": paused}), as_json=as_json)


@app.command("rotate-secret", epilog="Example:  bus subscription rotate-secret order.cancelled billing --overlap 1h")
@grouped
def rotate_secret(
    code: Code,
    name: Name,
    overlap: Annotated[
        str, typer.Option(help="Time for which the former secret signs as well, such as 24h; 0s for none.")
    ] = "24h",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Create a new signing secret, which is shown once."""
    with server.api() as api:
        path = f"{subscription_path(code, name)}/rotate-secret"
        show(api.call("POST", path, body={"overlap": overlap}), as_json=as_json)


app.command("sample", epilog=_SAMPLE)(send_sample)


@app.command("rm", epilog="Example:  bus subscription rm order.cancelled billing")
@grouped
def remove_subscription(code: Code, name: Name, as_json: AsJson = False, *, server: Server) -> None:
    """Remove a subscription and cancel its open deliveries."""
    with server.api() as api:
        api.call("DELETE", subscription_path(code, name))
    show({"removed": f"{code}/{name}"}, as_json=as_json)
