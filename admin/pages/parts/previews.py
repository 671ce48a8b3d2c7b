"""The preview of a job over many deliveries."""

from __future__ import annotations

from admin.models.responses.resends import PreviewView
from admin.pages.parts.notes import note
from admin.pages.parts.tables import Column, moment, place, state, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


def tell_extent(viewer: Viewer, found: PreviewView) -> None:
    """Show how far the count goes, and when the selection was frozen."""
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
        t("Frozen at {time}: what comes later is not part of it.", time=viewer.time(found.filter["to"])),
    )


def show_sample(viewer: Viewer, found: PreviewView) -> None:
    """Show the first messages of a selection."""
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
