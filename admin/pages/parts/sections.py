"""A titled part with a table whose rows keep their places while a page follows the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nicegui.events import GenericEventArguments

from admin.pages.api_error import ApiError
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import empty, refusal
from admin.pages.parts.tables import Column, Row, Table, table
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.localized_text import AnyText

# Clicks are handled at the table itself, since its rows come and go.
_CHOSEN: Final = """(event) => {
  const button = event.target.closest("[data-deed]");
  if (button) emit(button.dataset.deed, button.dataset.row);
}"""


class Section:
    """A table under its title, or why it has no rows.

    ``decide`` gets the name of a button in a row (a cell that shows ``deeds``), and the key of that row. A ``narrow``
    one cuts ids short, and has its rows as blocks on a narrow screen.
    """

    def __init__(
        self,
        viewer: Viewer,
        title: str,
        columns: Sequence[Column],
        decide: Callable[[GenericEventArguments], Awaitable[None]] | None = None,
        *,
        narrow: bool = False,
    ) -> None:
        self._viewer = viewer
        self._decide = decide
        self._classes = "pier-decided" if decide is not None or narrow else ""
        self._title = title
        self._columns = columns
        with tag("section", "pier-card", aria_label=title):
            tag("h2", "", title)
            self._said = LivePart(self._say)
            self._holder = tag("div")
        self._table: Table | None = None

    def show(self, rows: Sequence[Row], *, said: str = "", nothing: tuple[str, str] = ("", "")) -> None:
        """Show rows below the text ``said``; without rows, the title and the text of ``nothing``."""
        self._said.update(said if rows else nothing)
        self._holder.set_visibility(bool(rows))
        if self._table is None and rows:
            with self._holder:
                self._table = table(self._columns, rows, label=self._title).classes(self._classes)
            if self._decide is not None:
                self._table.on("click", self._decide, js_handler=_CHOSEN)
        elif self._table is not None and list(rows) != self._table.rows:
            self._table.rows = [dict(row) for row in rows]

    def refuse(self, error: ApiError) -> None:
        """Show in place of the table why the API refused."""
        self._holder.set_visibility(False)
        self._said.update((error.status, error.detail, error.hint))

    def _say(self, data: str | tuple[str, str] | tuple[int, AnyText, AnyText]) -> None:
        if isinstance(data, str):
            if data:
                tag("p", "pier-quiet", data)
        elif len(data) == 2:  # noqa: PLR2004 - a title and a text
            empty(*data)
        else:
            refusal(self._viewer, ApiError(*data))
