"""The page Resends."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.viewer import Viewer


@page("/resends", "Resends")
async def resends(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Resends"))
