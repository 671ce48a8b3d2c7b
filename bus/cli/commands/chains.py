"""``bus ordering abandon`` and ``release-producer``: what only a person decides about a strict order."""

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

Reason = Annotated[str, typer.Option(help="Why, for those who look later.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it costs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Body = dict[str, Any]


@grouped
def abandon_group(
    code: Code,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="As bus ordering show names it.", show_default=False)],
    reason: Reason,
    force: Annotated[bool, typer.Option("--force", help="Also one that answers, or that nobody can ask.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Have nobody wait for what a group of brokers holds, which is lost for good, disks and all.

    Consumers wait for such a group as long as it has something to be read, while senders go on with the next one. What
    it costs is said first. If its brokers can be brought back, do that instead: then nothing is out of order.
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
    """Let others send to a destination that a producer has for itself, which does not come back.

    What its spool still has is refused from then on. Start that producer again wherever that is possible, and have it
    sweep its spool: then nothing is refused.
    """
    with server.api() as api:
        path = f"{destination_path(code)}/ordering/release-producer"
        question = f"Take {code} from its producer?"
        _decide(api, path, {"reason": reason}, question, dry_run=dry_run, yes=yes, as_json=as_json)


def _decide(api: Api, path: str, body: Body, question: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Say what a decision costs, ask, and take it."""
    if dry_run or not yes:
        found = api.call("POST", path, body={**body, "dry_run": True})
        if dry_run:
            _show(found, as_json=as_json)
            return
        _ask(found, question)
    _show(api.call("POST", path, body={**body, "dry_run": False}), as_json=as_json)


def _ask(found: Body, question: str) -> None:
    """Go on once a person agrees to what it costs; on a terminal alone."""
    sys.stderr.write("".join(f"{line}\n" for line in _costs(found)))
    if not sys.stdin.isatty():
        raise ConfigurationError("nothing was changed: nobody can be asked here", hint="say --yes to go on")
    typer.confirm(question, abort=True, err=True)


def _show(found: Body, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for line in _costs(found):
        typer.echo(line)
    typer.echo("nothing was changed: a dry run" if found["dry_run"] else "done")


def _costs(found: Body) -> list[str]:
    waiting = [f"{one['subscription']}: {plain(one['waiting'])} waiting" for one in found.get("waiting", ())]
    return [plain(line) for line in [*(cost["what"] for cost in found["costs"]), *waiting]]
