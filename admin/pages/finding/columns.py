"""The columns of search results, and the choice of a viewer among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nicegui import ui

from admin.models.responses.messages import MessageRow
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import count, size
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.tables import Cell, Column, moment, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import COLUMNS, Viewer
from bus.localized_text import N_

Shows = Callable[[Viewer, MessageRow], Cell]


class _Choice(NamedTuple):
    title: str
    shows: Shows
    is_usual: bool = False
    is_number: bool = False


def _delivered(_: Viewer, row: MessageRow) -> Cell:
    cell = text(f"{row.delivered}/{row.subscriptions}" if row.subscriptions else "–")
    return {**cell, "order": row.delivered - row.subscriptions}


_CHOICES: Final[dict[str, _Choice]] = {
    "delivered": _Choice(N_("Delivered"), _delivered, is_usual=True, is_number=True),
    "time": _Choice(N_("Received"), lambda viewer, row: moment(viewer, row.received_at or row.sent_at), is_usual=True),
    "destination": _Choice(N_("Destination"), lambda _, row: text(row.destination, cut=True), is_usual=True),
    "biz_id": _Choice(N_("Biz id"), lambda _, row: text(visible(row.biz_id), cut=True), is_usual=True),
    "source": _Choice(N_("Source"), lambda _, row: text(visible(row.source), cut=True), is_usual=True),
    "bytes": _Choice(
        N_("Size"), lambda _, row: {**text(size(row.bytes)), "order": row.bytes}, is_usual=True, is_number=True
    ),
    "attempts": _Choice(
        N_("Attempts"), lambda _, row: {**text(count(row.attempts)), "order": row.attempts}, is_number=True
    ),
    "sent": _Choice(N_("Sent"), lambda viewer, row: moment(viewer, row.sent_at)),
    "completed": _Choice(N_("Completed"), lambda viewer, row: moment(viewer, row.completed_at)),
}


def chosen(viewer: Viewer) -> list[str]:
    """Return the names of the columns that a viewer has chosen, in their order."""
    wanted = viewer.columns.split(".")
    found = [name for name in _CHOICES if name in wanted]
    return found or [name for name, choice in _CHOICES.items() if choice.is_usual]


def columns(viewer: Viewer, names: list[str]) -> list[Column]:
    """Return columns that the viewer can sort by."""
    choices = ((name, _CHOICES[name]) for name in names)
    return [Column(name, viewer.t(one.title), is_number=one.is_number, sorts=True) for name, one in choices]


def cells(viewer: Viewer, row: MessageRow, names: list[str]) -> dict[str, Cell]:
    """Return a message's cells of these columns."""
    return {name: _CHOICES[name].shows(viewer, row) for name in names}


def chooser(viewer: Viewer) -> None:
    """Show what lets a viewer choose; the choice is kept in the browser."""
    t, now = viewer.t, chosen(viewer)
    with tag("details", "pier-more pier-columns"):
        tag("summary", "", t("Columns"))
        with tag("fieldset", "pier-choices"):
            tag("legend", "", t("Columns to show"))
            boxes = {name: ui.checkbox(t(one.title), value=name in now) for name, one in _CHOICES.items()}

        def keep() -> None:
            names = ".".join(name for name, box in boxes.items() if box.value)
            ui.run_javascript(f"pier.choose({COLUMNS!r}, {names!r})")

        button(t("Show these"), keep)
