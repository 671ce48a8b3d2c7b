"""``bus ordering``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from bus.cli.api import Api, destination_path, subscription_path
from bus.cli.commands.chains import abandon_group, release_producer
from bus.cli.commands.destinations import Code, Name, show
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server
from bus.cli.output import print_json
from bus.cli.picture import chain_lines

app = typer.Typer(
    name="ordering",
    help="Inspect and repair ordered delivery.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="Key, see bus ordering show; none for a strict order.", show_default=False),
]
_COLUMNS: Final = (
    "subscription",
    "key",
    "queued",
    "blocked_by",
    "status",
    "attempts",
    "since",
    "next_attempt_at",
    "reason",
)
_PAGE: Final = 200


@app.command("show", epilog="Example:  bus ordering show account.changed ledger")
@grouped
def show_order(
    code: Code,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Subscription.  [default: all]")] = "",
    *,
    output: Output,
    server: Server,
) -> None:
    """Show blocked keys, and the chain of a strict order.

    Shows for each blocked key the message that blocks it, the reason, and the number of messages behind it. For a
    strict order, without NAME, also shows the chain of broker groups: segments, oldest first, with queued messages;
    sender and reader; the state of the groups; obstacles, with the next step.
    """
    table = output.table(*_COLUMNS)
    with server.api() as api:
        ordering = api.call("GET", destination_path(code))["ordering"]
        chain = api.call("GET", f"{destination_path(code)}/ordering") if ordering == "strict" and not name else None
        names = [name] if name else [one["name"] for one in _subscriptions(api, code)]
        found = [{"subscription": each, **held} for each in names for held in _held(api, code, each)]
    if output.as_json:
        print_json({"items": found, "next": None} | ({"chain": chain} if chain is not None else {}))
        return
    if chain is not None:
        sys.stdout.writelines(f"{line}\n" for line in chain_lines(chain))
    if found or chain is None:
        table.show([one | {"queued": one["waiting"], "blocked_by": one["held_up_by"]} for one in found])
    if ordering == "none":
        again = ["bus", "destination", "set", code, "--ordering", "key", *server.options]
        sys.stderr.write(f"{code} has no ordering; set one with: {shlex.join(again)}\n")
    elif not found:
        sys.stderr.write("no key is blocked\n")


@app.command("resume", epilog="Example:  bus ordering resume account.changed ledger c-42")
@grouped
def resume_key(code: Code, name: Name, key: Key = "", as_json: AsJson = False, *, server: Server) -> None:
    """Retry the message that blocks a key now."""
    with server.api() as api:
        show(api.call("POST", f"{_keys_path(code, name)}/resume", body={"key": key}), as_json=as_json)


@app.command("skip", epilog="Example:  bus ordering skip account.changed ledger c-42 --reason closed")
@grouped
def skip_key(
    code: Code,
    name: Name,
    key: Key = "",
    reason: Annotated[str, typer.Option(help="Reason, for the audit log.", show_default=False)] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Park the message that blocks a key.

    Messages behind it are delivered then; the parked message can be resent, out of order.
    """
    with server.api() as api:
        asked = {"key": key, "reason": reason}
        show(api.call("POST", f"{_keys_path(code, name)}/skip", body=asked), as_json=as_json)


@app.command("release", epilog="Example:  bus ordering release account.changed --reason 'its disk is lost'")
@grouped
def release_order(
    code: Code,
    reason: Annotated[str, typer.Option(help="Reason, for the audit log.", show_default=False)] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Move an order from a lost process to another one.

    Refused while the process is reachable. Make sure that it is stopped: a process that is only isolated may continue
    to deliver. Messages on its disk come after newer ones if the disk is found again. If possible, start that process
    again or run a sweeper on its disk instead: then the order is kept.
    """
    with server.api() as api:
        show(api.call("POST", f"{destination_path(code)}/release-order", body={"reason": reason}), as_json=as_json)


app.command("abandon", epilog="Example:  bus ordering abandon account.changed g1 --reason 'its disks are lost'")(
    abandon_group
)
app.command("release-producer", epilog="Example:  bus ordering release-producer account.changed --reason scrapped")(
    release_producer
)


def _keys_path(code: str, name: str) -> str:
    return f"{subscription_path(code, name)}/keys"


def _subscriptions(api: Api, code: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"{destination_path(code)}/subscriptions")["items"]
    return found


def _held(api: Api, code: str, name: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = api.call("GET", _keys_path(code, name), query={"limit": _PAGE, "cursor": cursor})
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return
