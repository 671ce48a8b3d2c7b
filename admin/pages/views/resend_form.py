"""The form before a bulk resend: exactly what it would resend, and the reason for it."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.resends import JobView, PreviewView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.figures import count, pairs
from admin.pages.parts.forms import Form
from admin.pages.parts.notes import empty, note
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.selections import said, selection_of
from admin.pages.parts.tables import Column, moment, place, state, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.sentences import N_

# For more than these the count must be typed before they are resent.
_MANY: Final = 100


@page("/resends/new", N_("New resend"))
async def new_resend(viewer: Viewer) -> None:
    """Show what would be resent, and ask for a reason."""
    t = viewer.t
    heading(t("New resend"))
    selection = selection_of(viewer)
    found = (await viewer.api.post("/resends", {"filter": selection, "dry_run": True})).read(PreviewView)
    number = count(found.count)
    with tag("section", "pier-card", aria_label=t("What")):
        tag("h2", "", t("{count} deliveries would be resent", count=number))
        _tell_extent(viewer, found)
        pairs(said(viewer, found.filter) or [(t("What"), t("every message"))])
    if not found.count:
        empty(
            t("Nothing matches"),
            t("Take away a condition, or choose a longer time."),
            action=(t("Back to the search"), "/admin/find"),
        )
        return
    _sample(viewer, found)
    _form(viewer, found)


def _tell_extent(viewer: Viewer, found: PreviewView) -> None:
    t = viewer.t
    if not found.complete:
        since = viewer.time(found.counted_since)
        note(
            t("There are more than this"),
            t(
                "The count goes back to {since} only; the job takes all, and says how many.",
                since=since,
            ),
            tone="warn",
        )
    tag(
        "p",
        "pier-quiet",
        t("Frozen at {time}: what fails later is not part of it.", time=viewer.time(found.filter["to"])),
    )


def _sample(viewer: Viewer, found: PreviewView) -> None:
    t = viewer.t
    columns = [
        Column("message", t("Message")),
        Column("destination", t("Destination")),
        Column("biz_id", t("Biz id")),
        Column("status", t("Status")),
        Column("received", t("Received")),
    ]
    rows = [
        {
            "key": row.id,
            "message": place(row.id, f"/admin/messages/{row.id}", mono=True),
            "destination": text(row.destination),
            "biz_id": text(row.biz_id),
            "status": state(viewer, row.status),
            "received": moment(viewer, row.received_at),
        }
        for row in found.sample
    ]
    tag("p", "pier-quiet", t("The first of them:"))
    table(columns, rows, label=t("The first of them:"))


def _form(viewer: Viewer, found: PreviewView) -> None:
    t, wanted = viewer.t, str(found.count)
    is_typed = found.count > _MANY or not found.complete
    with tag("section", "pier-card", aria_label=t("Resend")):
        form = Form(viewer)
        with tag("div", "pier-form"):
            form.text("reason", t("Reason"), hint=t("Stands in every trace and in the audit log."))
            form.number("rate", t("Messages a second"), None, hint=t("Empty: as fast as subscriptions take it."))
            if is_typed:
                form.text("typed", t("Type {text} to go on", text=wanted))

        async def begin() -> None:
            if not form.require("reason", t("Say why: others will read it.")):
                return
            if is_typed and form.value("typed") != wanted:
                form.fail("typed", t("Type {text} to go on", text=wanted))
                return
            body = {"filter": found.filter, "rate": form.value("rate"), "reason": form.value("reason")}
            if (made := await sent_again(viewer, "/resends", body)) is not None:
                ui.navigate.to(f"/resends/{made.read(JobView).id}")

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Resend {count} deliveries", count=count(found.count)), begin)
            to(t("Leave it"), "/admin/failures")
