"""``bus discard``: what a subscription has not got yet is dropped."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from bus.cli.api import Api
from bus.cli.grouping import grouped
from bus.cli.jobs import SAMPLE, follow_job, show_preview
from bus.cli.options import DEFAULT_URL, ApiKey, BusUrl, Output, read_time
from bus.errors import ConfigurationError

_PATH = "/api/v1/discards"


@dataclass(frozen=True)
class Backlog:
    """Which of the deliveries that a subscription has not got are discarded; without conditions all."""

    status: Annotated[str | None, typer.Option(help="Only pending, retrying, resend, parked or dead ones.")] = None
    since: Annotated[str | None, typer.Option("--from", help="RFC 3339, or a duration ago such as 2h.")] = None
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago; by default now.")] = None
    biz_id: Annotated[str | None, typer.Option(help="Only with this biz id.")] = None
    source: Annotated[str | None, typer.Option(help="Only from this source.")] = None
    signature: Annotated[str | None, typer.Option(help="Only what fails like this; bus failures has them.")] = None

    def given(self) -> dict[str, str]:
        """Return what was given, as the API names it."""
        times = {"from": read_time(self.since, "--from"), "to": read_time(self.before, "--to")}
        rest = {name: value for name, value in asdict(self).items() if name not in ("since", "before")}
        return {name: value for name, value in (rest | times).items() if value is not None}


@grouped
def discard(
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Of this destination.")],
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="What this subscription has not got.")],
    *,
    chosen: Backlog,
    reason: Annotated[str, typer.Option(help="Why: it stands in every trace and in the audit log.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, and show the first.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the end; 0 does not wait.")] = 600,
    output: Output,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> int:
    """Drop what a subscription has not got yet: it ends as canceled, and can be resent.

    Other subscriptions of the same messages go on. It is a job: bus resend --cancel stops it, and --rerun resends what
    it discarded.
    """
    sample = output.table(*SAMPLE)
    body = {"filter": {"destination": destination, "subscription": subscription, **chosen.given()}, "reason": reason}
    with Api(url, api_key) as api:
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
    """Go on once a person agrees to what it takes; on a terminal alone."""
    many = f"{found['count']} deliveries" if found["complete"] else f"more than {found['count']} deliveries"
    sys.stderr.write(f"{many} of {whose} would be discarded: nobody gets them unless they are resent\n")
    if not sys.stdin.isatty():
        raise ConfigurationError("nothing was discarded: nobody can be asked here", hint="say --yes to go on")
    typer.confirm(f"Discard {many} of {whose}?", abort=True, err=True)
