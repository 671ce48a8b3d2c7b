"""Selections of messages as people read them, and as a URL has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from admin.pages.viewer import Viewer
from bus.domain.durations import parse_duration
from bus.domain.times import format_time

_LAST: Final = "last"
NAMES: Final[Mapping[str, str]] = {
    "ref": "Id",
    "destination": "Destination",
    "subscription": "Subscription",
    "status": "Status",
    "status_class": "Answer",
    "signature": "Failure",
    "error": "Error",
    "biz_id": "Biz id",
    "source": "Source",
    "header": "Header",
    "body_path": "Path in the body",
    "body_value": "Value there",
    "text": "Text in the body",
    "q": "In id, biz id or source",
    "from": "From",
    "to": "Until",
}
_TIMES: Final = frozenset({"from", "to"})


def selection_of(viewer: Viewer) -> dict[str, str]:
    """Return the conditions that a page's URL has, with ``last=1h`` as the time that it means now."""
    found = {name: viewer.query[name] for name in NAMES if viewer.query.get(name)}
    if _LAST in viewer.query and "from" not in found:
        try:
            found["from"] = format_time(viewer.now() - parse_duration(viewer.query[_LAST]))
        except ValueError:
            return found
    return found


def said(viewer: Viewer, selection: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return each condition: what it is about, and its value."""
    return [
        (viewer.t(text), viewer.time(str(selection[name])) if name in _TIMES else str(selection[name]))
        for name, text in NAMES.items()
        if selection.get(name) not in (None, "")
    ]


def in_short(viewer: Viewer, selection: Mapping[str, object]) -> str:
    """Return a selection in a line."""
    return " · ".join(f"{name}: {value}" for name, value in said(viewer, selection)) or viewer.t("every message")


def as_query(selection: Mapping[str, object]) -> str:
    """Return a selection as the query of a URL."""
    return urlencode({name: value for name, value in selection.items() if value not in (None, "")})
