"""``bus resend``: some messages, or all that a filter takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from bus.cli.api import NOT_FOUND, Api, message_path
from bus.cli.commands.steering import Steering, steer
from bus.cli.grouping import grouped
from bus.cli.options import DEFAULT_URL, ApiKey, BusUrl, Output, read_time
from bus.cli.output import print_json, progress
from bus.cli.tables import Table
from bus.errors import ReceiverRefused

POLL_SECONDS: Final = 0.2
_ENDED: Final = ("done", "canceled")
_FIRST_FAILED: Final = "retrying"
_OPEN: Final = ("resend", "pending")
_GOOD: Final = frozenset({"delivered", "selected", "skipped"})
# Refusals that concern one message: it or the subscription is not there, or a delivery is on its way.
_REFUSED: Final[dict[int | None, str]] = {NOT_FOUND: "missing", 409: "pending"}
_SAMPLE: Final = ("id", "destination", "status", "biz_id", "received_at")
_OUTCOMES: Final = ("id", "subscription", "outcome", "reason")


@grouped
def resend(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Messages; or give a filter.")] = None,
    destination: Annotated[str | None, typer.Option(help="All of this destination.")] = None,
    subscription: Annotated[str | None, typer.Option(help="To this subscription only.")] = None,
    status: Annotated[str | None, typer.Option(help="Only deliveries in this state, such as dead.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="RFC 3339, or a duration ago such as 2h.")] = None,
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago.")] = None,
    biz_id: Annotated[str | None, typer.Option(help="Only with this biz id.")] = None,
    source: Annotated[str | None, typer.Option(help="Only from this source.")] = None,
    signature: Annotated[str | None, typer.Option(help="Only what fails like this; bus failures has them.")] = None,
    rate: Annotated[float | None, typer.Option(help="Messages a second.")] = None,
    reason: Annotated[str, typer.Option(help="For the audit.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, and show the first.")] = False,
    reorder: Annotated[
        bool, typer.Option("--reorder", help="Also out of a strict order: behind all younger messages.")
    ] = False,
    pause: Annotated[str, typer.Option(metavar="JOB", help="Resend nothing more of a job until it is resumed.")] = "",
    resume: Annotated[str, typer.Option(metavar="JOB", help="Go on with it, with --rate at another rate.")] = "",
    cancel: Annotated[str, typer.Option(metavar="JOB", help="Resend nothing more of a job.")] = "",
    rerun: Annotated[str, typer.Option(metavar="JOB", help="Resend what failed or was missing in a job.")] = "",
    wait: Annotated[float, typer.Option(help="Seconds to wait for the outcomes; 0 does not wait.")] = 600,
    *,
    output: Output,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> int:
    """Deliver messages again, and say how each ended.

    "failed" is the first new attempt; the subscription's retries go on.
    """
    sample, outcomes = output.tables(_SAMPLE, _OUTCOMES)
    chosen = {
        "destination": destination,
        "subscription": subscription,
        "status": status,
        "biz_id": biz_id,
        "source": source,
        "signature": signature,
        "from": read_time(since, "--from"),
        "to": read_time(before, "--to"),
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    steering = Steering(pause, resume, cancel, rerun)
    with Api(url, api_key) as api:
        if any(steering):
            if ids or given or dry_run or sum(map(bool, steering)) > 1:
                raise typer.BadParameter("give one job, and neither messages nor a filter", param_hint="JOB")
            again = steer(api, steering, rate, reason, reorder=reorder, as_json=output.as_json)
            return _follow(api, again, wait, as_json=output.as_json) if again else 0
        if ids:
            if dry_run or set(given) - {"subscription"}:
                raise typer.BadParameter("give ids, or a filter, not both", param_hint="ID")
            shown = None if output.as_json else outcomes
            return _resend_some(api, ids, subscription, wait, shown, reorder=reorder)
        if "destination" not in given or not {"from", "to"} <= set(given):
            raise typer.BadParameter("a filter needs --destination, --from and --to", param_hint="filter")
        if dry_run:
            return _preview(api, given, None if output.as_json else sample)
        body = {"filter": given, "rate": rate, "dry_run": False, "reason": reason} | _allowing(reorder)
        return _follow(api, api.call("POST", "/api/v1/resends", body=body)["id"], wait, as_json=output.as_json)


def _preview(api: Api, chosen: dict[str, str], table: Table | None) -> int:
    """Say what would be resent, as JSON where no table is given."""
    found = api.call("POST", "/api/v1/resends", body={"filter": chosen, "dry_run": True})
    if table is None:
        print_json(found)
    else:
        table.show(found["sample"])
        typer.echo(f"{found['count']} deliveries would be resent")
        if not found.get("complete", True):
            typer.echo(f"and more: of messages made before {found['counted_since']} none was counted", err=True)
    return 0


def _follow(api: Api, job_id: str, wait: float, *, as_json: bool) -> int:
    """Show a job's progress until it ends, or ``wait`` seconds are over; the job goes on without us."""
    end = time.monotonic() + wait
    with progress() as bar:
        task = bar.add_task("resending", total=None)
        while True:
            job = api.call("GET", f"/api/v1/resends/{job_id}")
            counts = job["counts"]
            bar.update(task, total=counts["selected"], completed=counts["selected"] - counts["waiting"])
            if job["state"] in _ENDED or time.monotonic() >= end:
                break
            time.sleep(POLL_SECONDS)
    if as_json:
        print_json({"id": job_id, "state": job["state"], "counts": counts})
    return _conclude(counts, wait, quiet=as_json)


def _conclude(counts: Mapping[str, int], wait: float, *, quiet: bool) -> int:
    """Print the counts and return the exit code: 1 when any failed, or is not done though ``wait`` was given."""
    if not quiet:
        typer.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    good = _GOOD if wait else _GOOD | {"waiting"}
    return 1 if any(count for name, count in counts.items() if name not in good) else 0


def _allowing(reorder: bool) -> dict[str, bool]:
    """Return what is asked of the API beside the rest; an older bus does not know the word."""
    return {"reorder": True} if reorder else {}


def _resend_some(
    api: Api, ids: list[str], subscription: str | None, wait: float, table: Table | None, *, reorder: bool
) -> int:
    """Resend messages one by one and show how each ended, as JSON where no table is given."""
    body = {"subscriptions": [subscription] if subscription else None} | _allowing(reorder)
    open_: dict[str, list[str]] = {}
    items: list[dict[str, str]] = []
    refusals: list[ReceiverRefused] = []
    for message_id in ids:
        try:
            answer = api.call("POST", f"{message_path(message_id)}/resend", body=body)
            open_[message_id] = list(answer["subscriptions"])
        except ReceiverRefused as error:
            if error.status not in _REFUSED:
                raise
            refusals.append(error)
            items.append(
                {"id": message_id, "subscription": "", "outcome": _REFUSED[error.status], "reason": str(error)}
            )
    _await_outcomes(api, open_, items, wait)
    counts = Counter(item["outcome"] for item in items)
    if table is None:
        print_json({"items": items, "counts": counts})
    else:
        table.show(items)
    code = _conclude(counts, wait, quiet=table is None)
    if refusals:
        raise _first_of(refusals, len(ids))
    return code


def _first_of(refusals: list[ReceiverRefused], asked: int) -> ReceiverRefused:
    """Return one error for all refusals: how many there are, and the first of them."""
    first = refusals[0]
    if asked == 1:
        return first
    return ReceiverRefused(f"{len(refusals)} of {asked} messages were not resent: {first}", hint=first.hint)


def _await_outcomes(api: Api, open_: dict[str, list[str]], items: list[dict[str, str]], wait: float) -> None:
    """Move each delivery from ``open_`` to ``items`` once its first new attempt ended, or the time is over."""
    end = time.monotonic() + wait
    total = sum(len(names) for names in open_.values())
    with progress() as bar:
        task = bar.add_task("resending", total=total)
        while open_:
            is_over = time.monotonic() >= end
            for message_id in list(open_):
                _look(api, message_id, open_, items, is_over=is_over)
            bar.update(task, completed=total - sum(len(names) for names in open_.values()))
            if open_:
                time.sleep(POLL_SECONDS)


def _look(
    api: Api, message_id: str, open_: dict[str, list[str]], items: list[dict[str, str]], *, is_over: bool
) -> None:
    found = {each["subscription"]: each for each in api.call("GET", message_path(message_id))["deliveries"]}
    for name in list(open_[message_id]):
        delivery = found.get(name, {"status": "pending"})
        status = delivery["status"]
        if status in _OPEN and not is_over:
            continue
        outcome = "waiting" if status in _OPEN else "failed" if status == _FIRST_FAILED else status
        items.append(
            {"id": message_id, "subscription": name, "outcome": outcome, "reason": delivery.get("reason") or ""}
        )
        open_[message_id].remove(name)
    if not open_[message_id]:
        del open_[message_id]
