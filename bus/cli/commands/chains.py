"""``bus ordering abandon`` and ``release-producer``: decisions about a strict order that a person takes."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bus.cli.api import Api, destination_path
from bus.cli.commands.destinations import Code
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Server
from bus.cli.output import plain, print_json
from bus.errors import ConfigurationError

Reason = Annotated[str, typer.Option(help="Reason, for the audit log.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the consequences.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Body = dict[str, Any]


@grouped
def abandon_group(
    code: Code,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Group, see bus ordering show.", show_default=False)],
    reason: Reason,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the group is reachable, or its state unknown.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Remove a lost broker group from the chain.

    Consumers wait for a group until they have read its messages, while senders continue with the next one. Abandon a
    group only if its disks are lost; the consequences are shown first. If its brokers can be restored, restore them
    instead: then the order is kept.
    """
    body = {"group": group, "reason": reason, "force": force}
    with server.api() as api:
        path = f"{destination_path(code)}/ordering/abandon"
        _decide(api, path, body, f"Remove {group} from the chain of {code}?", dry_run=dry_run, yes=yes, as_json=as_json)


@grouped
def release_producer(
    code: Code,
    reason: Reason,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Release the lease of a lost producer.

    Other producers can send to the destination then, and messages in the spool of the lost producer are rejected. If
    possible, start that producer again and let it send its spool instead: then no message is rejected.
    """
    with server.api() as api:
        path = f"{destination_path(code)}/ordering/release-producer"
        question = f"Release the producer lease of {code}?"
        _decide(api, path, {"reason": reason}, question, dry_run=dry_run, yes=yes, as_json=as_json)


def _decide(api: Api, path: str, body: Body, question: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show the consequences of a decision, ask for confirmation, and execute it."""
    if dry_run or not yes:
        found = api.call("POST", path, body={**body, "dry_run": True})
        if dry_run:
            _show(found, as_json=as_json)
            return
        _ask(found, question)
    _show(api.call("POST", path, body={**body, "dry_run": False}), as_json=as_json)


def _ask(found: Body, question: str) -> None:
    """Ask for confirmation of the consequences; raises without a terminal."""
    sys.stderr.write("".join(f"{line}\n" for line in _costs(found)))
    if not sys.stdin.isatty():
        raise ConfigurationError("nothing was changed: no terminal for the confirmation", hint="confirm with --yes")
    typer.confirm(question, abort=True, err=True)


def _show(found: Body, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for line in _costs(found):
        typer.echo(line)
    typer.echo("dry run: nothing was changed" if found["dry_run"] else "done")


def _costs(found: Body) -> list[str]:
    waiting = [f"{one['subscription']}: {plain(one['waiting'])} queued" for one in found.get("waiting", ())]
    return [plain(line) for line in [*(cost["what"] for cost in found["costs"]), *waiting]]
