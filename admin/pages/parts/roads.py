"""The road of a destination, and how far the change to another one is."""

from __future__ import annotations

from admin.pages.viewer import Viewer


async def roads(viewer: Viewer, code: str) -> None:
    """Show the roads of a destination."""
