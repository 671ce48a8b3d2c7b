"""Buttons: plain, primary or dangerous, and why one is disabled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui


def button(
    text: str,
    action: Callable[[], Awaitable[object] | None],
    *,
    kind: str = "plain",
    icon: str | None = None,
    disabled_because: str = "",
) -> ui.button:
    """Return a button; ``kind`` is plain, primary or danger. It is disabled while its action runs.

    ``disabled_because`` disables it, and is shown as the reason to a user who points at it.
    """

    async def act() -> None:
        made.disable()
        try:
            waited = action()
            if waited is not None:
                await waited
        finally:
            if not made.is_deleted:
                made.enable()

    made = ui.button(text, icon=icon, on_click=act, color=None).classes(f"pier-{kind}").props("unelevated dense")
    made.props["padding"] = "5px 12px"
    if disabled_because:
        made.disable()
        with made:
            ui.tooltip(disabled_because)
        made.props["aria-description"] = disabled_because
    return made


def to(text: str, href: str, *, kind: str = "plain", icon: str | None = None) -> ui.button:
    """Return a button that leads to a place of this bus: a link, so that it opens in a tab too."""
    made = ui.button(text, icon=icon, color=None).classes(f"pier-{kind}").props("unelevated dense")
    made.props["padding"] = "5px 12px"
    made.props["href"] = href
    return made
