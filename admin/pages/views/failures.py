"""The page Failures."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.viewer import Viewer


@page("/failures", "Failures")
async def failures(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Failures"))
