"""``bus resend``: some messages, or all that match a filter."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from bus.cli.api import NOT_FOUND, Api, message_path
from bus.cli.commands.resends.editing import ResendOptions, allowing, edit
from bus.cli.commands.resends.steering import JobAction, steer
from bus.cli.filtering import Filter
from bus.cli.grouping import grouped
from bus.cli.jobs import SAMPLE, follow_job, show_preview
from bus.cli.options import Output, Server
from bus.cli.outcomes import COLUMNS, Item, follow
from bus.errors import ReceiverRefused

# Refusals of a single message: it or the subscription does not exist, or a delivery is pending.
_REFUSED: Final[dict[int | None, str]] = {NOT_FOUND: "missing", 409: "pending"}


@grouped
def resend(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids of messages; or give a filter.")] = None,
    *,
    destination: Annotated[str | None, typer.Option(help="Deliveries of this destination.")] = None,
    subscription: Annotated[str | None, typer.Option(help="Only deliveries to this subscription.")] = None,
    chosen: Filter,
    rate: Annotated[float | None, typer.Option(help="Maximum messages per second.")] = None,
    reason: Annotated[str, typer.Option(help="Reason, for the audit log.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the deliveries and show the first ones.")
    ] = False,
    edited: Annotated[
        str,
        typer.Option("--edit", metavar="FILE|-", help="Send a new message with this body instead, a file."),
    ] = "",
    reorder: Annotated[
        bool, typer.Option("--reorder", help="With a strict order: deliver out of order, after all newer messages.")
    ] = False,
    steering: JobAction,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the outcomes; 0 for none.")] = 600,
    output: Output,
    server: Server,
) -> int:
    """Deliver messages again, by id or by filter.

    Prints the outcome of each delivery. "failed" means that the first new attempt failed; retries continue.
    """
    sample, outcomes = output.tables(SAMPLE, COLUMNS)
    given, messages = chosen.given(destination=destination, subscription=subscription), ids or []
    _check(messages, given, steering, edited, dry_run=dry_run)
    with server.api() as api:
        if steering.jobs:
            again = steer(api, steering, rate, reason, reorder=reorder, as_json=output.as_json)
            return follow_job(api, again, wait, "resend", as_json=output.as_json) if again else 0
        if messages:
            asked = ResendOptions(subscription, reason, wait, None if output.as_json else outcomes, reorder)
            return edit(api, messages[0], edited, asked) if edited else _resend_some(api, messages, asked)
        if dry_run:
            found = api.call("POST", "/api/v1/resends", body={"filter": given, "dry_run": True})
            return show_preview(found, None if output.as_json else sample, "resent")
        body = {"filter": given, "rate": rate, "dry_run": False, "reason": reason} | allowing(reorder)
        job_id = api.call("POST", "/api/v1/resends", body=body)["id"]
        return follow_job(api, job_id, wait, "resend", as_json=output.as_json)


def _check(messages: list[str], given: dict[str, str], steering: JobAction, edited: str, *, dry_run: bool) -> None:
    """Raise a usage error unless one job, ids or a filter are given."""
    if steering.jobs:
        if messages or given or dry_run or edited or len(steering.jobs) > 1:
            raise typer.BadParameter("give one job only, without ids or a filter", param_hint="JOB")
    elif edited and len(messages) != 1:
        raise typer.BadParameter("needs exactly one id", param_hint="--edit")
    elif messages:
        if dry_run or set(given) - {"subscription"}:
            raise typer.BadParameter("give ids or a filter, not both", param_hint="ID")
    elif not {"destination", "from", "to"} <= set(given):
        raise typer.BadParameter("a filter needs --destination, --from and --to", param_hint="filter")


def _resend_some(api: Api, ids: list[str], asked: ResendOptions) -> int:
    """Resend messages one by one and print the outcomes."""
    body = {"subscriptions": [asked.subscription] if asked.subscription else None} | allowing(asked.reorder)
    waiting: dict[str, list[str]] = {}
    items: list[Item] = []
    refusals: list[ReceiverRefused] = []
    for message_id in ids:
        try:
            answer = api.call("POST", f"{message_path(message_id)}/resend", body=body)
            waiting[message_id] = answer["subscriptions"]
        except ReceiverRefused as error:
            if error.status not in _REFUSED:
                raise
            refusals.append(error)
            items.append(
                {"id": message_id, "subscription": "", "outcome": _REFUSED[error.status], "reason": str(error)}
            )
    code = follow(api, waiting, items, asked.wait, asked.table)
    if refusals:
        raise _first_of(refusals, len(ids))
    return code


def _first_of(refusals: list[ReceiverRefused], asked: int) -> ReceiverRefused:
    """Return one error for all refusals: their number and the first one."""
    first = refusals[0]
    if asked == 1:
        return first
    return ReceiverRefused(f"{len(refusals)} of {asked} messages were not resent; first: {first}", hint=first.hint)
