"""The page Find."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.viewer import Viewer


@page("/find", "Find")
async def find(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Find"))
