"""The fields that a request changed, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from admin.pages.parts.tables import Cell
from admin.pages.viewer import Viewer
from bus.domain.audit import Change

_MOST: Final = 4
_LONG: Final = 400


def changes(viewer: Viewer, found: Mapping[str, Change]) -> Cell:
    """Return a cell with fields before and after; many, or long ones, are folded."""
    fields = [_field(viewer, name, change) for name, change in found.items()]
    length = sum(len(text or "") for field in fields for text in field.values())
    fold = viewer.t("{count} fields", count=len(fields)) if len(fields) > _MOST or length > _LONG else None
    return {"fields": fields, "fold": fold}


def _field(viewer: Viewer, name: str, change: Change) -> dict[str, str | None]:
    """Return a field with its values before and after; None for one that is not known."""
    before, after = change.before, change.after
    is_removed = before is not None and after is None
    return {
        "name": name,
        "before": _shown(before) if before is not None else None,
        "after": viewer.t("nothing") if is_removed else None if after is None else _shown(after),
    }


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
