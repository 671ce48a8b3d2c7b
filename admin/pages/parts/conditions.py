"""The state of subscriptions: a word in lists, with reason and backlog on a subscription's own page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nicegui import ui

from admin.models.responses.base import Listing
from admin.models.responses.conditions import ConditionView
from admin.pages.parts.figures import count, figures
from admin.pages.parts.following import EVERY, patient
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.states import StateStyle, chip
from admin.pages.parts.tables import Cell, badge
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.domain.health.conditions import State
from bus.localized_text import N_
from bus.security.keys import Action

_LOOKS: Final = {
    State.BREAKER_OPEN: StateStyle(N_("breaker open"), "bad", "power_off"),
    State.FAILING: StateStyle(N_("failing"), "bad", "error"),
    State.SATURATED: StateStyle(N_("too slow"), "warn", "hourglass_bottom"),
    State.PAUSED: StateStyle(N_("paused"), "warn", "pause"),
    State.HELD_BY_RATE: StateStyle(N_("held by its rate"), "wait", "speed"),
    State.HEALTHY: StateStyle(N_("healthy"), "good", "check_circle"),
    State.QUIET: StateStyle(N_("nothing lately"), "wait", "bedtime"),
}
_NEXT: Final = {
    State.BREAKER_OPEN: N_("Repair it, and send it a sample; what it missed is delivered by itself then."),
    State.FAILING: N_("See what its failures have in common; what failed is tried again."),
    State.SATURATED: N_("Make it faster, or let it have more requests at once (Edit)."),
    State.PAUSED: N_("Its messages wait, and nothing is lost; resume it to have them delivered."),
    State.HELD_BY_RATE: N_("It gets as many a second as its rate allows; raise it under Edit if it can take more."),
    State.HEALTHY: "",
    State.QUIET: N_("Nothing was attempted in the last two minutes."),
}


_TO_TRY: Final = (State.BREAKER_OPEN, State.FAILING, State.PAUSED)
_TO_RAISE: Final = (State.SATURATED, State.HELD_BY_RATE)


async def conditions_of(viewer: Viewer, code: str = "") -> dict[tuple[str, str], ConditionView]:
    """Return the conditions of all subscriptions, or of a destination's, by destination and name, the worst first."""
    query = {"destination": code} if code else {}
    found = (await viewer.api.watch("/conditions", Listing[ConditionView], {**query, "limit": 5000})).items
    return {(one.destination, one.subscription): one for one in found}


def worst(states: Iterable[State]) -> State | None:
    """Return the worst of some; None of none."""
    return min(states, key=lambda state: state.rank, default=None)


def condition_badge(viewer: Viewer, state: State | None) -> Cell:
    """Return a cell with a state; None for a destination without subscriptions."""
    if state is None:
        return badge(viewer.t("nobody takes from it"), "wait")
    look = _LOOKS[state]
    return badge(viewer.t(look.text), look.tone, look.icon)


class ConditionCard:
    """The card with the condition of a subscription, kept up to date. ``has_failures`` links to its failures."""

    def __init__(self, viewer: Viewer, code: str, name: str, *, has_failures: bool = True) -> None:
        self._viewer = viewer
        self._has_failures = has_failures
        self._code, self._name = code, name
        with tag("section", "pier-card pier-condition", aria_label=viewer.t("Now"), aria_live="polite"):
            self._shown = LivePart(self._draw)

    async def follow(self) -> None:
        """Show the current condition, and update it from then on."""
        await self._look()
        ui.timer(EVERY, patient(self._viewer, self._look), immediate=False)

    async def _look(self) -> None:
        found = await conditions_of(self._viewer, self._code)
        self._shown.update(found.get((self._code, self._name)))

    def _draw(self, found: ConditionView | None) -> None:
        if found is None:
            return
        viewer, t, look = self._viewer, self._viewer.t, _LOOKS[found.state]
        with tag("div", "pier-row-of"):
            chip(t(look.text), look.tone, look.icon)
            tag("strong", "pier-bidi", viewer.say(found.why_text or found.why))
            if found.since:
                tag("span", "pier-quiet", t("since {time}", time=viewer.near(found.since)))
            if found.probe_at:
                tag("span", "pier-quiet", t("next probe {time}", time=viewer.near(found.probe_at)))
        with tag("p", "pier-row-of q-mb-sm"):
            if _NEXT[found.state]:
                tag("span", "pier-quiet", t(_NEXT[found.state]))
            for text, href in self._ways(found):
                link(text, href)
        self._figures(found)

    def _ways(self, found: ConditionView) -> list[tuple[str, str]]:
        """Return what can be done about it: a text, and the place."""
        viewer, t = self._viewer, self._viewer.t
        code, name = self._code, self._name
        place = f"/admin/destinations/{code}/subscriptions/{name}"
        ways: list[tuple[str, str]] = []
        if found.state in _TO_TRY and viewer.may(Action.CONFIGURE, code):
            ways.append((t("Send a sample"), f"{place}#sample"))
        if found.state in _TO_RAISE and viewer.may(Action.CONFIGURE, code):
            ways.append((t("Change its limits"), f"{place}/edit"))
        if self._has_failures and (found.dead or found.failed):
            ways.append((t("See what fails"), f"/admin/failures?destination={code}&subscription={name}"))
        if self._has_failures and found.dead and viewer.may(Action.RESEND, code):
            dead = f"/admin/resends/new?destination={code}&subscription={name}&status=dead"
            ways.append((t("Resend the dead…"), dead))
        return ways

    def _figures(self, found: ConditionView) -> None:
        viewer, t = self._viewer, self._viewer.t
        since = t("since {time}", time=viewer.near(found.oldest)) if found.oldest else ""
        figures(
            [
                (t("waiting"), count(found.waiting), since),
                (t("waiting for a retry"), count(found.retrying), ""),
                (t("died within the hour"), count(found.dead), ""),
                (t("attempts of late"), count(found.attempts), ""),
                (t("of them failed"), count(found.failed), ""),
            ]
        )
