"""The page of alarms: incidents and their notifications, silences, rules, and whether channels work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.models.responses.alarms import IncidentsView, IncidentView, SilenceView, TrialView
from admin.models.responses.base import Listing
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button
from admin.pages.parts.following import following
from admin.pages.parts.incident import IncidentCard
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import done, empty, note
from admin.pages.parts.tables import Column, Row, badge, moment, place, table
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_PAST: Final = 20
_TONES: Final = {"critical": ("bad", N_("critical")), "warning": ("warn", N_("warning")), "info": ("wait", N_("note"))}


@page("/alarms", N_("Alarms"))
async def alarms(viewer: Viewer) -> None:
    """Show the incidents that are open, silences and the last incidents that are over, and update them regularly."""
    t = viewer.t
    with heading(t("Alarms")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    trial = tag("div", aria_live="polite")
    watched = LivePart(lambda is_watched: None if is_watched else _unwatched(viewer))
    cards: dict[str, IncidentCard] = {}

    def build(ids: tuple[str, ...]) -> None:
        cards.clear()
        if not ids:
            empty(t("All is well"), t("Nothing has lasted long enough that people are told of it."))
        cards.update({one: IncidentCard(viewer) for one in ids})

    open_ones = LivePart(build)
    silences = LivePart(lambda found: _silences(viewer, found))
    past = LivePart(lambda found: _past(viewer, found))

    async def look() -> None:
        found = await viewer.api.get("/alarms", IncidentsView)
        watched.update(found.watched)
        still = [one for one in found.items if not one.closed_at]
        open_ones.update(tuple(one.id for one in still))
        for one in still:
            cards[one.id].show(one)
        if viewer.may(Action.READ):
            silences.update((await viewer.api.get("/alarm-silences", Listing[SilenceView])).items)
        past.update([one for one in found.items if one.closed_at][:_PAST])

    await look()
    with tools:
        if viewer.may(Action.CONFIGURE):
            button(t("Try the channels"), lambda: _try(viewer, trial), icon="campaign")
        following(viewer, look)


@page("/alarms/{incident_id}", N_("Alarm"))
async def alarm(viewer: Viewer) -> None:
    """Show one incident with all that has the same cause."""
    with heading(viewer.t("Alarm")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    card = IncidentCard(viewer, whole=True)

    async def look() -> None:
        card.show(await viewer.api.get(f"/alarms/{viewer.place['incident_id']}", IncidentView))

    await look()
    with tools:
        following(viewer, look)


def _unwatched(viewer: Viewer) -> None:
    t = viewer.t
    note(t("Nobody is told of alarms: no process watches for them"), t("Start one: bus run alarms"), tone="warn")


async def _try(viewer: Viewer, holder: ui.element) -> None:
    t = viewer.t
    found = (await viewer.api.post("/alarm-trials")).read(TrialView)
    holder.clear()
    with holder:
        if not found.results:
            note(
                t("There are no channels"),
                t("Name some in alarm_channels of bus.toml, see docs/alarms.md."),
                tone="warn",
            )
        for name, error in found.results.items():
            if error:
                note(t("{name} did not take it", name=name), viewer.say(found.result_texts[name] or error), tone="bad")
    if found.results and not any(found.results.values()):
        done(t("All channels have taken it: {names}", names=", ".join(found.results)))


def _silences(viewer: Viewer, found: Sequence[SilenceView]) -> None:
    t = viewer.t
    if not found:
        return
    with tag("section", "pier-card", aria_label=t("Silences")):
        tag("h2", "", t("Silences"))
        for one in found:
            with tag("div", "pier-row-of"):
                what = " · ".join(filter(None, (one.cause, one.rule, one.destination, one.subscription)))
                tag("span", "pier-mono pier-bidi", what)
                tag("span", "pier-quiet pier-bidi", f"{one.by}{': ' if one.note else ''}{one.note}")
                tag("span", "pier-quiet", t("until {time}", time=viewer.near(one.until)))
                if viewer.may(Action.PAUSE):
                    button(t("End it"), lambda one=one: _end(viewer, one))  # type: ignore[misc]


async def _end(viewer: Viewer, one: SilenceView) -> None:
    await viewer.api.delete(f"/alarm-silences/{one.id}")
    done(viewer.t("It is ended: people are told of what is still there."))


def _past(viewer: Viewer, found: Sequence[IncidentView]) -> None:
    t = viewer.t
    if not found:
        return
    with tag("section", "pier-card", aria_label=t("Over")):
        tag("h2", "", t("Over"))
        columns = [
            Column("severity", t("Severity")),
            Column("what", t("What")),
            Column("opened", t("From")),
            Column("closed", t("To")),
        ]
        table(columns, [_row(viewer, one) for one in found], label=t("Over"))


def _row(viewer: Viewer, one: IncidentView) -> Row:
    tone, said = _TONES[one.severity]
    first = one.alarms[0]
    return {
        "key": one.id,
        "severity": badge(viewer.t(said), tone),
        "what": place(viewer.say(first.what_text or first.what), f"/admin/alarms/{one.id}"),
        "opened": moment(viewer, one.opened_at),
        "closed": moment(viewer, one.closed_at),
    }
