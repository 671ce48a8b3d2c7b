"""Parts of a page that are updated regularly, until the viewer pauses them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final

from nicegui import ui

from admin.pages.api_error import ApiError
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.times import format_time

EVERY: Final = 2.0
_NOBODY: Final = 401
_APART: Final = 0.008


def following(viewer: Viewer, look: Callable[[], Awaitable[None]], *, every: float = EVERY) -> ui.timer:
    """Have ``look`` called every so many seconds while the page is open, and show a switch that pauses it."""
    t = viewer.t
    timer = ui.timer(every, patient(viewer, look), immediate=False)

    def switch() -> None:
        timer.active = not timer.active
        button.text = t("Pause updates") if timer.active else t("Go on updating")
        button.icon = "pause" if timer.active else "play_arrow"

    button = ui.button(t("Pause updates"), icon="pause", on_click=switch, color=None)
    button.classes("pier-plain pier-live").props("unelevated dense")
    button.props["padding"] = "3px 10px"
    return timer


def patient(viewer: Viewer, look: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return ``look`` for a timer: while the API fails, a line here shows since when and why, without a notification.

    What the page shows stays meanwhile.
    """
    trouble = LivePart(_tell)
    trouble.update("")
    seen = viewer.now()

    async def follow() -> None:
        nonlocal seen
        try:
            await _turn()
            await look()
        except ApiError as error:
            if error.status == _NOBODY:
                raise
            why = " · ".join(viewer.say(part) for part in (error.detail, error.hint) if part)
            trouble.update(viewer.t("Not up to date since {time}: {why}", time=viewer.near(format_time(seen)), why=why))
        else:
            seen = viewer.now()
            trouble.update("")

    return follow


@cache
def _turns(loop: asyncio.AbstractEventLoop) -> asyncio.Lock:  # noqa: ARG001 - the key: a lock is of one loop
    return asyncio.Lock()


async def _turn() -> None:
    """Wait until the last page that looked began to some milliseconds ago.

    A look takes a millisecond or two of the event loop. Pages that were opened together would look together, and
    deliveries wait for all of them.
    """
    async with _turns(asyncio.get_running_loop()):
        await asyncio.sleep(_APART)


def _tell(text: str) -> None:
    if text:
        tag("span", "pier-warn pier-bidi", text, role="status")
