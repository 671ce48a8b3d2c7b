"""Questions before what cannot be undone, and what is shown only once."""

from __future__ import annotations

import json

from nicegui import ui

from admin.pages.parts.buttons import button
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


async def confirmed(
    viewer: Viewer, title: str, text: str, *, action: str, typed: str = "", danger: bool = True
) -> bool:
    """Ask before something is done; whether it is to be done.

    Parameters
    ----------
    action
        What the button says: the deed, not “OK”.
    typed
        What must be typed first, empty for nothing.
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


async def show_once(viewer: Viewer, title: str, secret: str) -> None:
    """Show a secret that is never shown again, until the viewer has kept it."""
    t = viewer.t
    with ui.dialog().props("persistent") as dialog, ui.card():
        dialog.props["aria-label"] = title
        tag("h2", "", title)
        tag("p", "", t("It is shown only now: the bus keeps it in a form that cannot be shown again."))
        tag("pre", "pier-block", secret, tabindex="0")
        with ui.row():
            button(t("Copy"), lambda: ui.run_javascript(f"pier.copy({json.dumps(secret)})"), icon="content_copy")
            button(t("I have kept it"), lambda: dialog.submit(True), kind="primary")
    await dialog
    dialog.delete()
