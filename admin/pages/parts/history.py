"""The audited changes of a destination or a subscription."""

from __future__ import annotations

from admin.models.responses.audit import HistoryView
from admin.models.responses.base import Listing
from admin.pages.parts.changes import changes
from admin.pages.parts.notes import empty
from admin.pages.parts.tables import Column, Row, moment, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


async def history(viewer: Viewer, resource: str) -> None:
    """Show the last changes of a resource, the newest first."""
    t = viewer.t
    found = await viewer.api.get("/history", Listing[HistoryView], {"resource": resource, "limit": 20})
    with tag("section", "pier-card", aria_label=t("Who changed what")):
        tag("h2", "", t("Who changed what"))
        if not found.items:
            empty(t("No change is on record"))
            return
        columns = [
            Column("at", t("When")),
            Column("who", t("Who")),
            Column("what", t("What")),
            Column("changes", t("Changes"), shows="changes"),
        ]
        table(columns, [_row(viewer, entry) for entry in found.items], label=t("Who changed what"))


def _row(viewer: Viewer, entry: HistoryView) -> Row:
    return {
        "key": entry.id,
        "at": moment(viewer, entry.at),
        "who": text(entry.who.name),
        "what": text(f"{entry.method} {entry.resource}", mono=True),
        "changes": changes(viewer, entry.changes),
    }
