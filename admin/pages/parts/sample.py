"""Sending one message to a subscriber to see what is sent, and what comes back."""

from __future__ import annotations

from admin.pages.viewer import Viewer


def sample(viewer: Viewer, code: str, name: str) -> None:
    """Show the part."""
