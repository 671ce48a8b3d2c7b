"""Questions before what cannot be undone, and for a number."""

from __future__ import annotations

from nicegui import ui

from admin.pages.parts.buttons import button
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


async def confirmed(
    viewer: Viewer, title: str, text: str, *, action: str, typed: str = "", danger: bool = True
) -> bool:
    """Ask the user to confirm an action; return whether it is confirmed.

    Parameters
    ----------
    action
        The label of the button: names the action, not “OK”.
    typed
        The text that must be typed first; empty for none.
    """
    t = viewer.t
    with ui.dialog() as dialog, ui.card():
        dialog.props["aria-label"] = title
        tag("h2", "", title)
        tag("p", "", text)
        box = ui.input(t("Type {text} to go on", text=typed)).props("dense outlined autofocus") if typed else None
        with ui.row():
            button(t("Leave it"), lambda: dialog.submit(False))
            deed = button(action, lambda: dialog.submit(True), kind="danger" if danger else "primary")
        if box is not None:
            deed.disable()
            box.on_value_change(lambda event: deed.set_enabled(str(event.value or "").strip() == typed))
    answer = await dialog
    dialog.delete()
    return bool(answer)


async def asked_number(viewer: Viewer, title: str, value: float | None, *, hint: str) -> float | None:
    """Ask for a number; 0 for an empty one, None when the viewer leaves it."""
    with ui.dialog() as dialog, ui.card():
        dialog.props["aria-label"] = title
        tag("h2", "", title)
        box = ui.number(title, value=value, min=0).props("dense outlined autofocus")
        box.props["hint"] = hint
        with ui.row():
            button(viewer.t("Leave it"), lambda: dialog.submit(None))
            button(viewer.t("Save"), lambda: dialog.submit(float(box.value or 0)), kind="primary")
    answer = await dialog
    dialog.delete()
    return None if answer is None else float(answer)
