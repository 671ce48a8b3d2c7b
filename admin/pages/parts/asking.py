"""Dialogs: with fields to fill in before something is done, or to show one thing in detail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from nicegui import ui

from admin.pages.parts.buttons import button
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


@contextmanager
def dialog(title: str, *, wide: bool = False) -> Iterator[ui.dialog]:
    """Open a dialog and yield it, to be filled; it is deleted once closed."""
    with ui.dialog() as shown, ui.card().classes(f"pier-ask{' pier-ask-wide' if wide else ''}"):
        shown.props["aria-label"] = title
        tag("h2", "pier-bidi", title)
        yield shown
    shown.on("hide", shown.delete)
    shown.open()


def answers(viewer: Viewer, asking: ui.dialog, text: str, act: Callable[[], Awaitable[bool]]) -> None:
    """Show the dialog's buttons: one that cancels, and one that acts.

    The dialog stays open when ``act`` returns false, and when the API refuses: what was filled in is not lost.
    """

    async def run() -> None:
        if await act():
            asking.close()

    with tag("div", "pier-row-of pier-answers"):
        button(viewer.t("Cancel"), lambda: _leave(asking))
        button(text, run, kind="primary")


def close_button(viewer: Viewer, asking: ui.dialog) -> None:
    """Show the button that closes a dialog which only shows something."""
    with tag("div", "pier-row-of pier-answers"):
        button(viewer.t("Close"), lambda: _leave(asking))


def _leave(asking: ui.dialog) -> None:
    asking.close()
