"""Notes in a page and passing notifications: what happened, what was not lost, what to do."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.pages.api_error import ApiError
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_AWAY: Final = 503
_OTHER: Final = 0
_TITLES: Final = {
    _OTHER: N_("This did not work"),
    _NOT_FOUND: N_("There is nothing here"),
    _FORBIDDEN: N_("You may not see or do this"),
    _AWAY: N_("A part of the bus is away"),
    409: N_("This is not possible now"),
    422: N_("This value is not possible"),
}


def note(title: str, text: str = "", *, tone: str = "") -> ui.element:
    """Return a note, to add to; ``tone`` is good, warn, bad or empty."""
    element = tag("div", f"pier-note {f'pier-{tone}' if tone else ''}", role="alert" if tone == "bad" else "note")
    with element:
        tag("strong", "", title)
        if text:
            tag("p", "", text)
    return element


def empty(title: str, text: str = "", *, action: tuple[str, str] | None = None) -> None:
    """Say that there is nothing to show, and what to do next; ``action`` is a link's text and its URL."""
    with tag("div", "pier-empty"):
        tag("strong", "", title)
        if text:
            tag("span", "", text)
        if action is not None:
            with tag("p"):
                link(*action)


def refusal(viewer: Viewer, error: ApiError) -> None:
    """Show in place of a page, or of a part, why the API did not answer."""
    t = viewer.t
    tone = "warn" if error.status in (_NOT_FOUND, _FORBIDDEN) else "bad"
    with note(t(_TITLES.get(error.status, _TITLES[_OTHER])), viewer.say(error.detail), tone=tone):
        if error.hint:
            tag("p", "pier-quiet", viewer.say(error.hint))
        if error.status == _AWAY:
            tag("p", "pier-quiet", t("Nothing that was acknowledged is lost: it waits on disk. Reload in a moment."))


def tell(viewer: Viewer, error: ApiError) -> None:
    """Notify the viewer why the API refused."""
    text = " · ".join(part for part in (viewer.say(said) for said in (error.detail, error.hint)) if part)
    ui.notify(text, type="warning", position="top", multi_line=True, timeout=12_000, close_button=viewer.t("Close"))


def done(text: str) -> None:
    """Notify the viewer that something was done."""
    ui.notify(text, type="positive", position="top", timeout=4_000)
