"""The overview."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.parts.tables import Column, place, table, text
from admin.pages.viewer import Viewer


@page("/", "Overview")
async def overview(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Overview"))
    found = await viewer.api.get("/destinations")
    table(
        [Column("code", "Code"), Column("t", "Transport")],
        [
            {"key": i["code"], "code": place(i["code"], f"/admin/destinations/{i['code']}"), "t": text(i["transport"])}
            for i in found["items"]
        ],
        label="x",
    )
