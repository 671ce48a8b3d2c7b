"""Resends and discards: all jobs, and one at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from nicegui import ui

from admin.models.responses.base import Listing
from admin.models.responses.resends import JobView, ResendView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button, to
from admin.pages.parts.dialogs import asked_number, confirmed
from admin.pages.parts.figures import count, figures, pairs, rate
from admin.pages.parts.following import EVERY, following
from admin.pages.parts.jobs import ENDED, KINDS, OUTCOMES, OWN, TONES, state_of
from admin.pages.parts.notes import empty, note
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.selections import as_query, in_short, said
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, badge, number, place, table, text
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment, waited
from admin.pages.viewer import Viewer
from admin.repair.jobs import Item, Kind
from bus.localized_text import N_
from bus.security.keys import Action

_PAGE: Final = 50
_RARELY: Final = 6.0
_SURE: Final = ("delivered", "discarded", "failed", "skipped", "missing")


@page("/resends", N_("Resends"))
async def resends(viewer: Viewer) -> None:
    """Show all jobs, the newest first."""
    t = viewer.t
    heading(t("Resends"))
    query = {"limit": _PAGE, "cursor": viewer.query.get("cursor")}
    found = await viewer.api.get("/resends", Listing[ResendView], query)
    if not found.items:
        empty(
            t("Nothing was resent yet"),
            t("A resend starts from what fails, from a search, or from one message."),
            action=(t("See what fails"), "/admin/failures"),
        )
        return
    columns = [
        Column("job", t("Begun")),
        Column("kind", t("Kind")),
        Column("by", t("By")),
        Column("reason", t("Reason")),
        Column("filter", t("What")),
        Column("state", t("State")),
        Column("selected", t("Selected"), is_number=True),
        Column("delivered", t("Delivered or discarded"), is_number=True),
        Column("failed", t("Failed"), is_number=True),
    ]
    shown = table(columns, [_row(viewer, job) for job in found.items], label=t("Resends"))
    if found.next:
        link(t("Older"), f"/admin/resends?cursor={found.next}")

    async def look() -> None:
        jobs = {job.id: job for job in (await viewer.api.get("/resends", Listing[ResendView], query)).items}
        shown.rows = [_row(viewer, jobs[row["key"]]) if row["key"] in jobs else row for row in shown.rows]

    following(viewer, look)


def _row(viewer: Viewer, job: ResendView) -> Row:
    counts = job.counts
    return {
        "key": job.id,
        "job": {
            **place(viewer.time(job.created_at), f"/admin/resends/{job.id}"),
            "title": viewer.utc(job.created_at),
        },
        "kind": text(viewer.t(KINDS[job.kind])),
        "by": text(job.by),
        "reason": text(viewer.reason(job.reason, by=job.by), cut=True),
        "filter": text(in_short(viewer, job.filter), cut=True),
        "state": badge(viewer.t(state_of(job.kind, job.state)), TONES.get(job.state, "warn")),
        "selected": number(count(counts.selected)),
        "delivered": number(count(counts.delivered + counts.discarded)),
        "failed": number(count(counts.failed + counts.missing)),
    }


@page("/resends/{id}", N_("Resend"))
async def resend(viewer: Viewer) -> None:
    """Show one job at work."""
    job = await viewer.api.get(f"/resends/{viewer.place['id']}", ResendView)
    title = N_("Discard of {time}") if job.kind is Kind.DISCARD else N_("Resend of {time}")
    with heading(viewer.t(title, time=viewer.time(job.created_at))):
        state = tag("span")
        tag("span", "pier-spacer")
        buttons = tag("span", "pier-row-of")
    shown = _Job(viewer, job, state, buttons)
    await _items(viewer, job)
    # A finished job is still read, less often: the page shows what has failed since it was made.
    following(viewer, shown.look, every=_RARELY if job.state in ENDED else EVERY)


class _Job:
    """The state of one job, redrawn as it progresses."""

    def __init__(self, viewer: Viewer, job: ResendView, state: ui.element, buttons: ui.element) -> None:
        self._viewer = viewer
        self._id = job.id
        self._state = state
        self._buttons = buttons
        self._known: object = None
        self._warning = tag("div")
        self._counts = tag("div")
        self._progress = ui.linear_progress(0, show_value=False, size="10px").props("rounded instant-feedback")
        self._progress.props["aria-label"] = viewer.t("Progress")
        self._balance = tag("p", "pier-row-of q-mt-sm")
        with tag("section", "pier-card", aria_label=viewer.t("The job")):
            self._pairs = tag("div")
        self._draw(job)

    async def look(self) -> None:
        """Ask how it is now."""
        self._draw(await self._viewer.api.get(f"/resends/{self._id}", ResendView))

    def _draw(self, job: ResendView) -> None:
        counts = job.counts
        selected = counts.selected
        self._counts.clear()
        with self._counts:
            figures([(self._viewer.t(OUTCOMES[part]), count(number), "") for part, number in _by_outcome(job).items()])
        self._progress.set_value((selected - counts.waiting) / selected if selected else float(job.state == "done"))
        self._draw_balance(job)
        look = (job.state, job.rate, bool(job.new_failures and job.new_failures.count), tuple(job.reruns))
        if look != self._known:
            self._known = look
            self._draw_rest(job)

    def _draw_balance(self, job: ResendView) -> None:
        t, counts = self._viewer.t, _by_outcome(job)
        parts = [part for part in counts if counts[part] or part in _SURE]
        terms = " + ".join(f"{count(counts[part])} {t(OUTCOMES[part])}" for part in parts)
        self._balance.clear()
        with self._balance:
            tag("span", "", t("{selected} selected = {terms}", selected=count(job.counts.selected), terms=terms))
            if job.balanced:
                chip(t("balanced"), "good", "check")
            else:
                chip(t("does not add up"), "bad", "error")
            if job.seconds_left is not None:
                tag("span", "pier-quiet", t("about {time} left", time=waited(job.seconds_left)))

    def _draw_rest(self, job: ResendView) -> None:
        viewer = self._viewer
        self._state.clear()
        with self._state:
            chip(viewer.t(state_of(job.kind, job.state)), TONES.get(job.state, "warn"))
        self._buttons.clear()
        with self._buttons:
            if viewer.may(Action.RESEND, job.filter.get("destination")):
                _buttons(viewer, job, self.look)
        self._warning.clear()
        with self._warning:
            _tell_new(viewer, job)
        self._pairs.clear()
        with self._pairs:
            _pairs(viewer, job)


def _by_outcome(job: ResendView) -> dict[str, int]:
    """Return how many items ended how, in the order in which outcomes are shown."""
    known: dict[str, int] = msgspec.structs.asdict(job.counts)
    return {part: known[part] for part in _outcomes(job)}


def _outcomes(job: ResendView) -> list[str]:
    """Return the outcomes that items of such a job can have."""
    foreign = {own for kind, own in OWN.items() if kind is not job.kind}
    return [part for part in OUTCOMES if part not in foreign]


def _tell_new(viewer: Viewer, job: ResendView) -> None:
    t, new = viewer.t, job.new_failures
    if not new or not new.count:
        return
    query = as_query(
        {name: value for name, value in job.filter.items() if name not in ("from", "to")} | {"from": job.filter["to"]}
    )
    number_of = count(new.count) + ("" if new.complete else "+")
    with note(
        t("{count} more failed since this job was made", count=number_of),
        t("They are not part of it: its selection was frozen then."),
        tone="warn",
    ):
        link(t("Resend these too"), f"/admin/resends/new?{query}")


def _pairs(viewer: Viewer, job: ResendView) -> None:
    t = viewer.t
    shown: list[tuple[str, object]] = [
        (t("By"), job.by),
        (t("Reason"), viewer.reason(job.reason, by=job.by) or "–"),
        *_rate(viewer, job),
        (t("Made"), lambda: moment(viewer, job.created_at)),
        (t("Finished"), lambda: moment(viewer, job.finished_at)),
        *said(viewer, job.filter),
    ]
    if job.rerun_of:
        shown.append((t("Again, of"), _job_link(job.rerun_of)))
    shown.extend((t("Done again as"), _job_link(again)) for again in job.reruns)
    pairs(shown)


def _rate(viewer: Viewer, job: ResendView) -> list[tuple[str, str]]:
    t = viewer.t
    if job.kind is Kind.DISCARD:
        return []
    return [
        (t("Rate"), t("{rate} a second", rate=rate(job.rate)) if job.rate else t("as fast as subscriptions take it"))
    ]


def _job_link(job_id: str) -> Callable[[], None]:
    def show() -> None:
        link(job_id, f"/admin/resends/{job_id}")

    return show


def _buttons(viewer: Viewer, job: ResendView, look: Callable[[], Awaitable[None]]) -> None:
    t, place_of = viewer.t, f"/resends/{job.id}"
    if job.state in ENDED:
        _rerun_button(viewer, job)
        return

    async def order(verb: str) -> None:
        await viewer.api.post(f"{place_of}/{verb}")
        await look()

    async def cancel() -> None:
        title, said_then = t("Cancel this job?"), t("What was done stays done; the rest is counted as canceled.")
        if await confirmed(viewer, title, said_then, action=t("Cancel the rest")):
            await viewer.api.delete(place_of)
            await look()

    async def change_rate() -> None:
        wanted = await asked_number(viewer, t("Resend how many a second?"), job.rate, hint=t("Empty for no limit."))
        if wanted is not None:
            await viewer.api.patch(place_of, {"rate": wanted or None})
            await look()

    if job.state == "paused":
        button(t("Resume"), lambda: order("resume"), icon="play_arrow", kind="primary")
    else:
        button(t("Pause"), lambda: order("pause"), icon="pause")
    if job.kind is Kind.RESEND:
        button(t("Rate…"), change_rate, icon="speed")
    button(t("Cancel"), cancel, icon="cancel")


def _rerun_button(viewer: Viewer, job: ResendView) -> None:
    t, counts = viewer.t, job.counts

    async def rerun() -> None:
        if (made := await sent_again(viewer, f"/resends/{job.id}/rerun", {})) is not None:
            ui.navigate.to(f"/resends/{made.read(JobView).id}")

    if job.kind is Kind.DISCARD:
        why = "" if counts.discarded else t("Nothing was discarded.")
        said_so = t("Resend what was discarded ({count})", count=count(counts.discarded))
    else:
        lost = counts.failed + counts.missing
        why = "" if lost else t("Nothing of it failed.")
        said_so = t("Resend what failed ({count})", count=count(lost))
    button(said_so, rerun, icon="replay", disabled_because=why)


async def _items(viewer: Viewer, job: ResendView) -> None:
    t, outcome, base = viewer.t, viewer.query.get("outcome"), f"/admin/resends/{job.id}"
    found = await viewer.api.get(
        f"/resends/{job.id}/items",
        Listing[Item],
        {"outcome": outcome, "cursor": viewer.query.get("cursor"), "limit": 100},
    )
    with tag("section", "pier-card", aria_label=t("Each delivery")):
        with tag("div", "pier-row-of q-mb-sm"):
            tag("h2", "", t("Each delivery"))
            with tag("nav", "pier-tabs", aria_label=t("Outcome")):
                for name, said_as in [("", t("all")), *((name, t(OUTCOMES[name])) for name in _outcomes(job))]:
                    current = "true" if name == (outcome or "") else None
                    link(said_as, f"{base}?outcome={name}" if name else base, aria_current=current)
            tag("span", "pier-spacer")
            query = f"&outcome={outcome}" if outcome else ""
            for kind in ("csv", "ndjson"):
                to(kind.upper(), f"/api/v1/resends/{job.id}/items/export?format={kind}{query}", icon="download")
        if not found.items:
            empty(t("Nothing to show here"), t("Another outcome may have more; a job that selects has none yet."))
        else:
            _item_table(viewer, found.items, job.by)
        if found.next:
            link(t("Go on"), f"{base}?cursor={found.next}{query}")


def _item_table(viewer: Viewer, items: list[Item], by: str) -> None:
    t = viewer.t
    rows = [
        {
            "key": f"{item.message_id}/{item.subscription}",
            "message": place(item.message_id, f"/admin/messages/{item.message_id}", mono=True),
            "subscription": text(item.subscription),
            "outcome": badge(
                t(OUTCOMES[item.outcome]),
                TONES.get(item.outcome, "wait"),
            ),
            "reason": text(viewer.reason(item.reason, by=by), cut=True),
        }
        for item in items
    ]
    columns = [
        Column("message", t("Message")),
        Column("subscription", t("Subscription")),
        Column("outcome", t("Outcome")),
        Column("reason", t("Why")),
    ]
    table(columns, rows, label=t("Each delivery"))
