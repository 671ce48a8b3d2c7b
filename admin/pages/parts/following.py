"""Parts of a page that follow the bus, until the viewer stops them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from admin.pages.viewer import Viewer

EVERY: Final = 2.0


def following(viewer: Viewer, look: Callable[[], Awaitable[None]], *, every: float = EVERY) -> ui.timer:
    """Have ``look`` called every so many seconds while the page is open, and show a switch that pauses it."""
    t = viewer.t
    timer = ui.timer(every, look, immediate=False)

    def switch() -> None:
        timer.active = not timer.active
        button.text = t("Pause updates") if timer.active else t("Go on updating")
        button.icon = "pause" if timer.active else "play_arrow"

    button = ui.button(t("Pause updates"), icon="pause", on_click=switch, color=None)
    button.classes("pier-plain pier-live").props("unelevated dense")
    button.props["padding"] = "3px 10px"
    return timer
