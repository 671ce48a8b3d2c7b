"""A table cell with the response of a subscriber."""

from __future__ import annotations

from typing import Final

from admin.pages.parts.tables import Cell, badge
from admin.pages.viewer import Viewer

_ERROR: Final = 400


def answer(viewer: Viewer, status_code: int | None, error: str | None) -> Cell:
    """Return a cell with the status of an answer; None for none."""
    if status_code is None:
        return badge(viewer.t("no answer"), "bad", "cancel")
    failed = status_code >= _ERROR or bool(error)
    return badge(str(status_code), "bad" if failed else "good", "cancel" if failed else "check_circle")
