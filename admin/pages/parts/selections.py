"""Selections of messages as text, and as the query of a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from admin.pages.viewer import Viewer
from bus.domain.durations import parse_duration
from bus.domain.times import format_time, parse_time
from bus.localized_text import N_

_LAST: Final = "last"
NAMES: Final[Mapping[str, str]] = {
    "ref": N_("Id"),
    "destination": N_("Destination"),
    "subscription": N_("Subscription"),
    "status": N_("Status"),
    "status_class": N_("Answer"),
    "signature": N_("Failure"),
    "error": N_("Error"),
    "biz_id": N_("Biz id"),
    "source": N_("Source"),
    "header": N_("Header"),
    "body_path": N_("Path in the body"),
    "body_value": N_("Value there"),
    "text": N_("Text in the body"),
    "q": N_("In id, biz id or source"),
    "from": N_("From"),
    "to": N_("Until"),
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


def older_than(selection: Mapping[str, str], age: str, now: int) -> dict[str, str]:
    """Return a selection without messages younger than an age such as ``1h``; an earlier ``to`` of its own stays."""
    until = now - parse_duration(age)
    try:
        until = min(until, parse_time(selection["to"]))
    except (KeyError, ValueError):
        return {"to": format_time(until), **selection}  # what is no time the API refuses
    return {**selection, "to": format_time(until)}


def said(viewer: Viewer, selection: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return each condition: its label and its value."""
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
