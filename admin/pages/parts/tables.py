"""Tables whose cells are texts, links, chips and times; rows keep their place while they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from nicegui import ui

from admin.pages.parts.states import LOOKS
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status

Cell = dict[str, Any]
Row = dict[str, Any]
Shows = Literal["cells", "opening", "changes", "deeds"]


class Column(NamedTuple):
    """A column; ``is_number`` aligns it to the right, and ``shows`` names the kind of its cells for ``cells.js``.

    A user can sort by a column that ``sorts``: by the ``order`` of its cells, or else by their texts.
    """

    name: str
    title: str
    is_number: bool = False
    shows: Shows = "cells"
    sorts: bool = False


class Table(ui.table, component="../assets/cells.js"):
    """A table of which the elements in the page stay when its rows change."""


def table(columns: Sequence[Column], rows: Sequence[Row], *, label: str, key: str = "key") -> Table:
    """Return a table; its ``rows`` can be set anew. Each row has a ``key``, and a cell by column's name.

    ``label`` names the table to screen readers.
    """
    shown = Table(
        columns=[
            {
                "name": column.name,
                "label": column.title,
                "field": column.name,
                "align": "right" if column.is_number else "left",
                "shows": column.shows,
                "sortable": column.sorts,
            }
            for column in columns
        ],
        rows=[dict(row) for row in rows],
        row_key=key,
    )
    shown.classes("pier-table").props("flat dense hide-pagination")
    shown.props["aria-label"] = label
    return shown


def text(value: object, *, title: str | None = None, mono: bool = False, cut: bool = False, tone: str = "") -> Cell:
    """Return a cell with a text; ``cut`` shows its beginning, and all of it on hover.

    ``mono``, of ids and URLs, adds a button that copies it.
    """
    shown = str(value)
    classes = [name for name, wanted in (("pier-mono", mono), ("pier-cut", cut), (f"pier-{tone}", tone)) if wanted]
    return {
        "text": shown,
        "title": title or (shown if cut else None),
        "classes": " ".join([*classes, "pier-bidi"]),
        "copies": shown if mono else None,
    }


def number(value: str) -> Cell:
    """Return a cell with a figure."""
    return {"text": value, "classes": "pier-number"}


def place(value: object, href: str, *, title: str | None = None, mono: bool = False, wraps: bool = False) -> Cell:
    """Return a cell with a link to a page of the bus; the keys ``j`` and ``k`` move to the next and the previous one.

    One that ``wraps`` takes two lines where it is too long for one; ``mono`` has a button to copy the text.
    """
    classes = [name for name, wanted in (("pier-mono", mono), ("pier-two-lines", wraps)) if wanted]
    return {
        "text": str(value),
        "href": href,
        "title": title,
        "classes": " ".join(["pier-row pier-bidi", *classes]),
        "copies": str(value) if mono else None,
    }


def going(value: str, href: str) -> Cell:
    """Return a cell with a link that looks like a button, for a page that performs an action."""
    return {"text": value, "href": href, "classes": "pier-button"}


def state(viewer: Viewer, status: str, more: str = "") -> Cell:
    """Return a cell with a state."""
    look = LOOKS[Status(status)]
    said = viewer.t(look.text) + (f" · {more}" if more else "")
    return badge(said, look.tone, look.icon)


def badge(value: str, tone: str = "", icon: str = "") -> Cell:
    """Return a cell with a chip."""
    return {"text": value, "icon": icon, "classes": f"pier-chip {f'pier-{tone}' if tone else ''}"}


def moment(viewer: Viewer, time: str | None, *, exact: bool = False) -> Cell:
    """Return a cell with a time of the API, in the viewer's zone; of today without its date."""
    shown = viewer.clock(time) if exact else viewer.near(time)
    return {"text": shown or "–", "time": time, "title": viewer.utc(time), "classes": "pier-time"}
