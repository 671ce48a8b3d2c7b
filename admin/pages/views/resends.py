"""Resends and discards: all jobs."""

from __future__ import annotations

from typing import Final

from admin.models.responses.base import Listing
from admin.models.responses.resends import ResendView
from admin.pages.frame import heading, page
from admin.pages.parts.figures import count
from admin.pages.parts.following import following
from admin.pages.parts.jobs import KINDS, TONES, state_of
from admin.pages.parts.notes import empty
from admin.pages.parts.selections import in_short
from admin.pages.parts.tables import Column, Row, badge, number, place, table, text
from admin.pages.parts.tags import link
from admin.pages.viewer import Viewer
from bus.sentences import N_

_PAGE: Final = 50


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
