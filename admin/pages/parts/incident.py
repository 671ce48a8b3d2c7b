"""An incident on a page: what is wrong, what to do, who was notified, who acknowledged it."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.alarms import IncidentView
from admin.pages.parts.alarms import place_of
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.buttons import button, to
from admin.pages.parts.cures import show_cures
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import done
from admin.pages.parts.states import chip
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_FOLDED: Final = 3
_LOOKS: Final = {
    "critical": (N_("critical"), "bad", "error"),
    "warning": (N_("warning"), "warn", "warning"),
    "info": (N_("note"), "wait", "info"),
}
_STATES: Final = {
    "open": (N_("nobody has taken it on"), "warn", "person_search"),
    "acknowledged": (N_("taken on"), "good", "person"),
    "silenced": (N_("silenced"), "wait", "notifications_off"),
    "closed": (N_("over"), "good", "check_circle"),
}
_DURATIONS: Final = ("30m", "1h", "4h", "1d", "7d")


class IncidentCard:
    """One incident; ``whole`` lists all alarms of it and not the first ones."""

    def __init__(self, viewer: Viewer, *, whole: bool = False) -> None:
        self._viewer = viewer
        self._whole = whole
        with tag("section", "pier-card pier-incident"):
            self._shown = LivePart(self._draw)
            self._asking = tag("div")  # stays while the rest is drawn anew

    def show(self, found: IncidentView) -> None:
        """Show it as it is now."""
        self._shown.update(found)

    def _draw(self, found: IncidentView) -> None:
        viewer, t, first = self._viewer, self._viewer.t, found.alarms[0]
        with tag("div", "pier-row-of"):
            text, tone, icon = _LOOKS[found.severity]
            chip(t(text), tone, icon)
            text, tone, icon = _STATES[found.state]
            chip(t(text), tone, icon)
            with tag("span", "pier-quiet"):
                moment(viewer, found.opened_at)
                if found.closed_at:
                    tag("span", "", " – ")
                    moment(viewer, found.closed_at)
            tag("span", "pier-spacer")
            self._tools(found)
        with tag("h2"):
            link(viewer.say(first.what_text or first.what), place_of(first.link))
        if not found.closed_at:
            tag("p", "", viewer.say(first.next_step_text or first.next_step))
        show_cures(viewer, first.cures)
        self._others(found)
        self._people(found)

    def _others(self, found: IncidentView) -> None:
        viewer, t, others = self._viewer, self._viewer.t, found.alarms[1:]
        shown = others if self._whole else others[:_FOLDED]
        left = len(others) - len(shown) + found.left_out
        if not others:
            return
        tag("p", "pier-quiet", t("From the same cause:"))
        with tag("ul", "pier-list"):
            for alarm in shown:
                with tag("li"):
                    link(viewer.say(alarm.what_text or alarm.what), place_of(alarm.link))
                    show_cures(viewer, alarm.cures)
            if left:
                with tag("li"):
                    link(t("and {count} more", count=left), f"/admin/alarms/{found.id}")

    def _people(self, found: IncidentView) -> None:
        t = self._viewer.t
        with tag("p", "pier-quiet"):
            if found.acknowledged is not None:
                taken = found.acknowledged
                tag("span", "pier-bidi", t("{name} has taken it on", name=taken.by))
                tag("span", "pier-bidi", f": {taken.note}" if taken.note else "")
                tag("span", "", " · ")
            told = [one.channel for one in found.told if one.at]
            owed = [one.channel for one in found.told if not one.at]
            tag("span", "pier-bidi", t("told: {names}", names=", ".join(told)) if told else t("no channel was told"))
            if owed:
                names = ", ".join(owed)
                tag("span", "pier-warn pier-bidi", " · " + t("does not take it yet: {names}", names=names))

    def _tools(self, found: IncidentView) -> None:
        t = self._viewer.t
        if not self._whole:
            to(t("Details"), f"/admin/alarms/{found.id}")
        if not self._viewer.may(Action.PAUSE) or found.closed_at:
            return
        if found.acknowledged is None:
            button(t("Take it on…"), lambda: self._take_on(found), icon="person", kind="primary")
        button(t("Silence…"), lambda: self._silence(found.cause), icon="notifications_off")

    def _take_on(self, found: IncidentView) -> None:
        viewer, t = self._viewer, self._viewer.t
        with self._asking, dialog(t("Take it on?")) as asking:
            tag("p", "", t("Nobody else is told of it, and nobody again, until it is over or becomes worse."))
            note = ui.input(t("What the others should know")).props("outlined dense autofocus maxlength=500")

            async def act() -> bool:
                answer = await viewer.api.post(f"/alarms/{found.id}/acknowledge", {"note": note.value or ""})
                self.show(answer.read(IncidentView))
                done(t("It is yours."))
                return True

            answers(viewer, asking, t("Take it on"), act)

    def _silence(self, cause: str) -> None:
        viewer, t = self._viewer, self._viewer.t
        with self._asking, dialog(t("Silence it?")) as asking:
            tag("p", "", t("Nobody is told of {what} for a while; the pages go on to show it.", what=cause))
            duration = ui.select(list(_DURATIONS), value="1h", label=t("For")).props("outlined dense")
            note = ui.input(t("Why")).props("outlined dense maxlength=500")

            async def act() -> bool:
                body = {"cause": cause, "for": duration.value, "note": note.value or ""}
                await viewer.api.post("/alarm-silences", body)
                done(t("It is silenced, and in the audit log."))
                return True

            answers(viewer, asking, t("Silence it"), act)
