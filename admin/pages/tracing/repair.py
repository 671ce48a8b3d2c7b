"""Actions on one message: resend it, or edit it into a new one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

import msgspec
from nicegui import ui

from admin.models.responses.messages import EditedView, ResentView, TraceView
from admin.pages.parts.asking import answers, close_button, dialog
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import size
from admin.pages.parts.notes import done, note
from admin.pages.parts.reasons import asked_reason
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.states import state_chip
from admin.pages.parts.tags import link, tag
from admin.pages.tracing.body import UNMASK, is_text
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status
from bus.security.keys import Action

_EDITED: Final = 262_144  # bytes, and UTF-16 units in the editor: either fits into one message of the page's socket
_WELL: Final = (Status.DELIVERED, Status.SKIPPED)


class Repair:
    """The buttons of the page's head, and their dialogs.

    Parameters
    ----------
    said
        The element in which to show what was done.
    stir
        Called after an action, so that the page looks for what changed.
    """

    def __init__(self, viewer: Viewer, said: ui.element, stir: Callable[[], None]) -> None:
        self._viewer = viewer
        self._said = said
        self._stir = stir

    def show(self, trace: TraceView) -> None:
        """Show the buttons; a disabled one shows why."""
        t, code = self._viewer.t, trace.destination
        why = self._why_not(trace)
        button(t("Resend…"), lambda: self._ask_resend(trace), icon="replay", disabled_because=why)
        if not why and trace.masked and not self._viewer.may(UNMASK, code):
            why = t("Parts of it are masked for you: ask an admin to edit it.")
        button(t("Edit and resend…"), lambda: self._ask_edit(trace), icon="edit", disabled_because=why)

    def _why_not(self, trace: TraceView) -> str:
        t = self._viewer.t
        if not self._viewer.may(Action.RESEND, trace.destination):
            return t("You may not resend here: ask an admin for the role operator.")
        return "" if trace.message else t("The message itself is not in the store")

    def _ask_resend(self, trace: TraceView) -> None:
        t = self._viewer.t
        with dialog(t("Resend this message")) as asking:
            tag("p", "", t("It keeps its id. A subscriber that has it already gets it once more."))
            chosen = self._choose(trace)
            reason = asked_reason(self._viewer)

            async def act() -> bool:
                names = [name for name, box in chosen.items() if box.value]
                if not names:
                    ui.notify(t("Choose a subscription at least."), type="warning", position="top")
                    return False
                return await self._resend(trace.id, names, reason.value or "")

            answers(self._viewer, asking, t("Resend"), act)

    def _choose(self, trace: TraceView) -> dict[str, ui.checkbox]:
        """Show the subscriptions to choose from: those that did not get it, or else all, are chosen."""
        deliveries = trace.deliveries
        failed = {one.subscription for one in deliveries if one.status not in _WELL}
        chosen: dict[str, ui.checkbox] = {}
        with tag("fieldset", "pier-choices"):
            tag("legend", "", self._viewer.t("Send it to"))
            for one in deliveries:
                name = one.subscription
                with tag("div", "pier-row-of"):
                    chosen[name] = ui.checkbox(name, value=not failed or name in failed)
                    state_chip(self._viewer, one.status)
        return chosen

    async def _resend(self, message_id: str, names: list[str], reason: str) -> bool:
        """Resend it; False when the viewer leaves it."""
        t = self._viewer.t
        asked = {"subscriptions": names, "reason": reason.strip()}
        made = await sent_again(self._viewer, f"/messages/{message_id}/resend", asked)
        if made is None:
            return False
        answer = made.read(ResentView)
        done(t("Resent."))
        self._stir()
        self._said.clear()
        with (
            self._said,
            note(t("It is delivered again to {names}", names=", ".join(answer.subscriptions)), tone="good"),
        ):
            link(t("What becomes of it"), f"/admin/resends/{answer.id}")
        return True

    async def _ask_edit(self, trace: TraceView) -> None:
        t, code = self._viewer.t, trace.destination
        path = f"/messages/{trace.id}/body"
        masked = trace.masked and self._viewer.may(UNMASK, code)
        content = (await self._viewer.api.content(f"{path}?unmasked=true" if masked else path)).content
        with dialog(t("Edit and resend"), wide=True) as asking:
            if not is_text(content) or len(content) > _EDITED:
                note(t("This body cannot be edited here"), self._too_long(), tone="warn")
                close_button(self._viewer, asking)
                return
            said = t("This makes a new message with an id of its own, linked to this one; this one stays as it is.")
            tag("p", "", said)
            tag("p", "pier-quiet", t("Opening this was noted as a read of the body, and so is the edit."))
            self._edit(asking, trace, content.decode("utf-8"))

    def _edit(self, asking: ui.dialog, trace: TraceView, text: str) -> None:
        t = self._viewer.t
        is_json = _json_trouble(text) == ""

        def check(value: str) -> str | None:
            if _is_too_long(value):
                return self._too_long()
            why = _json_trouble(value) if is_json else ""
            return t("Not JSON: {why}", why=why) if why else None

        body = ui.textarea(t("Body"), value=text, validation=check).props(
            "outlined debounce=300 input-class=pier-editor"
        )
        # One more than the limit, so that a longer text that is pasted is refused and not cut.
        body.props["maxlength"] = _EDITED + 1
        if is_json:
            button(t("Indent it"), lambda: self._indent(body)).classes("pier-start")
        reason = asked_reason(self._viewer, is_required=True)

        async def act() -> bool:
            if not (body.validate() and reason.validate()):
                return False
            return await self._make(trace, body.value or "", (reason.value or "").strip())

        answers(self._viewer, asking, t("Make it and deliver it"), act)

    def _indent(self, editor: ui.textarea) -> None:
        """Indent the JSON in the editor; any other text, or one that would get too long, stays as it is."""
        text = editor.value or ""
        if _json_trouble(text):
            return
        indented = msgspec.json.format(text, indent=2)
        if _is_too_long(indented):
            ui.notify(self._too_long(), type="warning", position="top")
        else:
            editor.set_value(indented)

    def _too_long(self) -> str:
        t = self._viewer.t
        return t("Only texts up to {size} are edited here; the API takes any: POST …/edit.", size=size(_EDITED))

    async def _make(self, trace: TraceView, text: str, reason: str) -> bool:
        """Make the new message; False when the viewer leaves it."""
        t = self._viewer.t
        # In base64, so that the body has exactly the bytes of the editor, not those of a decoded and encoded value.
        content = base64.b64encode(text.encode()).decode()
        asked = {"body_base64": content, "reason": reason}
        made = await sent_again(self._viewer, f"/messages/{trace.id}/edit", asked)
        if made is None:
            return False
        answer = made.read(EditedView)
        done(t("A new message was made."))
        self._stir()
        self._said.clear()
        title = t("A new message goes to {names}", names=", ".join(answer.subscriptions))
        with self._said, note(title, tone="good"):
            link(answer.id, f"/admin/messages/{answer.id}", "pier-mono")
        return True


def _is_too_long(text: str) -> bool:
    """Whether a text is over the editor's limit, counted in UTF-16 units as browsers do."""
    return len(text.encode("utf-16-le", "surrogatepass")) > 2 * _EDITED


def _json_trouble(text: str) -> str:
    """Return why a text is not JSON; empty when it is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        msgspec.json.format(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""
