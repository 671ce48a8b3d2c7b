"""Rows of a table that a user ticks, and the action on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from admin.pages.parts.buttons import button
from admin.pages.parts.tables import Row, Table
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


class SelectionBar:
    """A bar that appears once rows of the table below it are ticked, with an action on them.

    ``action`` is the label of its button, and ``act`` gets the rows.
    """

    def __init__(self, viewer: Viewer, action: str, act: Callable[[Sequence[Row]], Awaitable[None]]) -> None:
        self._viewer = viewer
        self._rows: list[Row] = []
        with tag("div", "pier-row-of pier-ticked", role="status") as self._bar:
            self._count = tag("strong")
            button(action, lambda: act(self._rows), kind="primary", icon="replay")
        self._bar.set_visibility(False)

    def of(self, shown: Table, by: str) -> None:
        """Let the rows of a table be ticked; the text of the column ``by`` names a row to screen readers."""
        t = self._viewer.t
        shown.set_selection("multiple")
        shown.props["ticking"] = {"all": t("Tick all that are shown"), "one": t("Tick"), "by": by}
        shown.on_select(lambda event: self._tell(event.selection))

    def _tell(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)
        self._count.set_text(self._viewer.t("{count} ticked", count=len(rows)))
        self._bar.set_visibility(bool(rows))
