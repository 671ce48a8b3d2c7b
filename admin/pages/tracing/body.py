"""The body of a message: read only on demand, shown as inert text, and never cut without saying so."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from nicegui import ui

from admin.models.responses.messages import TraceView
from admin.pages.api_error import ApiError
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import size
from admin.pages.parts.foreign_records import hex_lines, visible
from admin.pages.parts.notes import note, refusal
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer

UNMASK: Final = "unmask"
_SHOWN: Final = 65_536
_SHOWN_IN_HEX: Final = 4_096
_FORMATTED: Final = 4 * 2**20


class Form(NamedTuple):
    """One way to show a body; ``cut`` is whether the text is incomplete."""

    title: str
    text: str
    cut: str = ""


class BodyPart:
    """The part of the page that has the body."""

    def __init__(self, viewer: Viewer, trace: TraceView) -> None:
        self._viewer = viewer
        self._path = f"/messages/{trace.id}/body"
        self._masked = trace.masked
        self._may_unmask = viewer.may(UNMASK, trace.destination)
        t = viewer.t
        with tag("section", "pier-card", aria_label=t("Body")):
            with tag("div", "pier-row-of"):
                tag("h2", "", t("Body"))
                tag("span", "pier-quiet", size(trace.bytes))
                tag("span", "pier-spacer")
                button(t("Show body"), lambda: self._show(unmasked=False))
                if self._masked and self._may_unmask:
                    button(t("Show all of it"), lambda: self._show(unmasked=True))
                link(t("Download"), f"/api/v1{self._path}", "pier-button", download="")
            self._hint = tag("p", "pier-quiet", t("Reading a body is noted in the audit log."))
            self._holder = tag("div")

    async def _show(self, *, unmasked: bool) -> None:
        self._holder.clear()
        try:
            answer = await self._viewer.api.content(f"{self._path}?unmasked=true" if unmasked else self._path)
        except ApiError as error:
            with self._holder:
                refusal(self._viewer, error)
            return
        with self._holder:
            if answer.headers.get("bus-masked"):
                said = self._viewer.t("Values that the destination's rules hide are shown as ***.")
                note(self._viewer.t("Parts of this body are masked"), said, tone="warn")
            self._forms(forms_of(self._viewer, answer.content))

    def _forms(self, forms: list[Form]) -> None:
        t = self._viewer.t
        if not forms:
            tag("p", "pier-quiet", t("The body is empty."))
            return
        with ui.tabs().props("dense align=left no-caps inline-label") as tabs:
            shown = [ui.tab(form.title) for form in forms]
        with ui.tab_panels(tabs, value=shown[0]).props("keep-alive").classes("pier-forms"):
            for tab, form in zip(shown, forms, strict=True):
                with ui.tab_panel(tab):
                    if form.cut:
                        tag("p", "pier-warn", form.cut, role="note")
                    tag("pre", "pier-block", form.text, tabindex="0", aria_label=form.title)


def forms_of(viewer: Viewer, content: bytes) -> list[Form]:
    """Return the ways to show a body, the best first; none for an empty one."""
    if not content:
        return []
    t = viewer.t
    forms = []
    formatted = _formatted(content)
    if formatted is not None:
        cut = _cut(viewer, len(formatted), len(content), _SHOWN)
        forms.append(Form(t("Formatted"), visible(_beginning(formatted)), cut))
    if is_text(content):
        forms.append(Form(t("Text"), visible(_beginning(content)), _cut(viewer, len(content), len(content), _SHOWN)))
    cut = _cut(viewer, len(content), len(content), _SHOWN_IN_HEX)
    forms.append(Form(t("Bytes"), hex_lines(content[:_SHOWN_IN_HEX]), cut))
    return forms


def is_text(content: bytes) -> bool:
    """Whether bytes are a text that people can read."""
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _formatted(content: bytes) -> bytes | None:
    """Return JSON indented, with its numbers unchanged; None for other or too long texts."""
    if len(content) > _FORMATTED or not is_text(content):
        return None
    try:
        return msgspec.json.format(content, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None


def _beginning(content: bytes) -> str:
    """Return the text that is shown; a character that the limit cuts in two is left out."""
    return content[:_SHOWN].decode("utf-8", "ignore")


def _cut(viewer: Viewer, length: int, whole: int, limit: int) -> str:
    if length <= limit:
        return ""
    return viewer.t("The first {part} of {whole}; download it to have all.", part=size(limit), whole=size(whole))
