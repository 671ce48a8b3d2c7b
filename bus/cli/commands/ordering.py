"""``bus ordering``."""

from __future__ import annotations

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
    help="Keys that are held up, where an order is kept, and the chains of strict orders.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="As bus ordering show has it; none if the order is strict.", show_default=False),
]
_COLUMNS: Final = (
    "subscription",
    "key",
    "waiting",
    "held_up_by",
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of this subscription; of all without.")] = "",
    *,
    output: Output,
    server: Server,
) -> None:
    """Show which keys are held up, by which message and why, and how many wait behind it.

    Of a strict order, without NAME, the chain of its groups of brokers as well: what is to be read, oldest first, with
    what waits there for whom; who sends and reads; how the groups are; and what blocks, with what to do.
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
        table.show(found)
    if ordering == "none":
        sys.stderr.write(f"{code} keeps no order; with one: bus destination set {code} --ordering key\n")
    elif not found:
        sys.stderr.write("no key is held up\n")


@app.command("resume", epilog="Example:  bus ordering resume account.changed ledger c-42")
@grouped
def resume_key(code: Code, name: Name, key: Key = "", as_json: AsJson = False, *, server: Server) -> None:
    """Resend what holds up a key now; those behind it go on once it is delivered."""
    with server.api() as api:
        show(api.call("POST", f"{_keys_path(code, name)}/resume", body={"key": key}), as_json=as_json)


@app.command("skip", epilog="Example:  bus ordering skip account.changed ledger c-42 --reason closed")
@grouped
def skip_key(
    code: Code,
    name: Name,
    key: Key = "",
    reason: Annotated[str, typer.Option(help="Why, for those who look later.", show_default=False)] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Set aside what holds up a key, so that those behind it go on: it is parked, and can be resent out of order."""
    with server.api() as api:
        asked = {"key": key, "reason": reason}
        show(api.call("POST", f"{_keys_path(code, name)}/skip", body=asked), as_json=as_json)


@app.command("release", epilog="Example:  bus ordering release account.changed --reason 'its disk is lost'")
@grouped
def release_order(
    code: Code,
    reason: Annotated[str, typer.Option(help="Why, for those who look later.", show_default=False)] = "",
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Let another process keep an order whose own is gone for good, disk and all; refused while it is seen alive.

    Make sure that it is stopped: one that is only cut off from the others may go on as if the order were still its own.
    What waits on that disk comes, if it ever comes back, behind what is accepted from now on. Start that process again,
    or run a sweeper on its disk, wherever that is possible: then nothing is out of order.
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
