"""``bus discard``: cancels deliveries that have not succeeded yet."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bus.cli.filtering import Filter
from bus.cli.grouping import grouped
from bus.cli.jobs import SAMPLE, follow_job, show_preview
from bus.cli.options import Output, Server
from bus.cli.output import counted
from bus.errors import ConfigurationError

_PATH = "/api/v1/discards"


@grouped
def discard(
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Destination code.")],
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="Subscription name.")],
    *,
    chosen: Filter,
    reason: Annotated[str, typer.Option(help="Reason, for the traces and the audit log.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the deliveries and show the first ones.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the end of the job; 0 for none.")] = 600,
    output: Output,
    server: Server,
) -> int:
    """Cancel deliveries that have not succeeded yet.

    Cancels all open deliveries of a subscription, or those that match the filter. Other subscriptions are not affected.
    The job is stopped with bus resend --cancel, and the canceled deliveries are resent with bus resend --rerun.
    """
    sample = output.table(*SAMPLE)
    body = {"filter": {"destination": destination, "subscription": subscription, **chosen.given()}, "reason": reason}
    with server.api() as api:
        if dry_run or not yes:
            found = api.call("POST", _PATH, body={**body, "dry_run": True})
            if dry_run:
                return show_preview(found, None if output.as_json else sample, "discarded")
            _ask(found, f"{destination}/{subscription}")
            body["filter"] = found["filter"]
        job_id = api.call("POST", _PATH, body=body)["id"]
        sys.stderr.write(f"job {job_id}\n")
        return follow_job(api, job_id, wait, "discard", as_json=output.as_json)


def _ask(found: dict[str, Any], whose: str) -> None:
    """Ask for confirmation; raises without a terminal."""
    count = counted(found["count"], "delivery", "deliveries")
    many = count if found["complete"] else f"more than {count}"
    sys.stderr.write(f"{many} of {whose} will be canceled; not delivered unless resent\n")
    if not sys.stdin.isatty():
        raise ConfigurationError("nothing was discarded: no terminal for the confirmation", hint="confirm with --yes")
    typer.confirm(f"Discard {many} of {whose}?", abort=True, err=True)
