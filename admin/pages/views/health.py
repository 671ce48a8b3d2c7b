"""The page Health."""

from __future__ import annotations

from admin.pages.frame import heading, page
from admin.pages.viewer import Viewer


@page("/health", "Health")
async def health(viewer: Viewer) -> None:
    """Show it."""
    heading(viewer.t("Health"))
