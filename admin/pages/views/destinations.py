"""The page Destinations."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.viewer import Viewer


@page("/destinations", "Destinations")
async def destinations(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Destinations"))
