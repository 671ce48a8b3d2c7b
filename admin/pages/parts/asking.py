"""Dialogs: what asks before something is done, and what shows one thing closely."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from admin.pages.calls import Refused
from admin.pages.parts.notes import tell
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


@contextmanager
def dialog(title: str, *, wide: bool = False) -> Iterator[ui.dialog]:
    """Open a dialog and yield it, to be filled; once closed it is gone."""
    with ui.dialog() as shown, ui.card().classes(f"pier-ask{' pier-ask-wide' if wide else ''}"):
        shown.props["aria-label"] = title
        tag("h2", "pier-bidi", title)
        yield shown
    shown.on("hide", shown.delete)
    shown.open()


def answers(viewer: Viewer, asking: ui.dialog, text: str, act: Callable[[], Awaitable[Any]]) -> ui.button:
    """Show the ways out: one that does nothing, and one that acts; a refusal is told, and leaves the dialog open."""

    async def run() -> None:
        button.disable()
        try:
            if await act() is not False:
                asking.close()
        except Refused as error:
            tell(viewer, error)
        finally:
            button.enable()

    with tag("div", "pier-row-of pier-answers"):
        ui.button(viewer.t("Cancel"), on_click=asking.close, color=None).classes("pier-plain").props(
            "unelevated no-caps"
        )
        button = ui.button(text, on_click=run, color=None).classes("pier-primary").props("unelevated no-caps")
    return button
