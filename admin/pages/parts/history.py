"""Who changed what of a destination or a subscription."""

from __future__ import annotations

from admin.pages.viewer import Viewer


async def history(viewer: Viewer, resource: str) -> None:
    """Show the changes of a resource, the newest first."""
