"""Producers: who sends, what waits in their queues, and what of theirs is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admin.models.responses.producers import ProducersView, ProducerView, RefusedView, TurnedAwayView, UnheardView
from admin.pages.frame import heading, page
from admin.pages.parts.figures import count
from admin.pages.parts.following import following
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import note
from admin.pages.parts.sections import Section
from admin.pages.parts.selections import as_query
from admin.pages.parts.tables import Cell, Column, Row, moment, number, place, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.health.vitals import USED_KEY_RATE, USED_RATE, USED_SHARE
from bus.localized_text import N_

_SHOWN: Final = 200
_WHY: Final = {
    USED_SHARE: N_("what waits for it fills its share of the spool"),
    USED_RATE: N_("more comes than its rate allows"),
    USED_KEY_RATE: N_("it sends more than its rate allows"),
}


@page("/producers", N_("Producers"))
async def producers(viewer: Viewer) -> None:
    """Show all producers that receivers have seen, and update them regularly."""
    t = viewer.t
    with heading(t("Producers")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    shown = _Producers(viewer)
    await shown.look()
    with tools:
        following(viewer, shown.look)


class _Producers:
    """The tables of the page."""

    def __init__(self, viewer: Viewer) -> None:
        t = viewer.t
        self._viewer = viewer
        self._unheard = LivePart(self._tell_unheard)
        self._producers = Section(
            viewer,
            t("Who sends"),
            [
                Column("source", t("Source")),
                Column("agent", t("Sent by")),
                Column("host", t("Machine")),
                Column("api_key", t("Key")),
                Column("records", t("In its queue"), is_number=True),
                Column("oldest", t("Oldest")),
                Column("seen", t("Heard of")),
                Column("messages", t("Messages"), is_number=True),
            ],
        )
        self._left_out = LivePart(self._tell_left_out)
        self._refused = Section(
            viewer,
            t("Refused for good"),
            [
                Column("source", t("Source")),
                Column("destination", t("Destination")),
                Column("count", t("Messages"), is_number=True),
                Column("why", t("Why")),
                Column("last", t("Last")),
                Column("example", t("Example")),
            ],
        )
        self._turned_away = Section(
            viewer,
            t("Refused for now"),
            [
                Column("whose", t("Whose limit")),
                Column("destination", t("Destination")),
                Column("count", t("Messages"), is_number=True),
                Column("why", t("Why")),
                Column("last", t("Last")),
            ],
        )

    async def look(self) -> None:
        """Ask the API, and show its answer."""
        viewer = self._viewer
        query = {"source": viewer.query.get("source"), "limit": _SHOWN}
        found = await viewer.api.get("/producers", ProducersView, query)
        self._unheard.update(found.unheard)
        told = viewer.t("Receivers remember who sends for a day, from their start on.")
        nothing = (viewer.t("Nobody has sent anything"), told)
        self._producers.show([_producer(viewer, one) for one in found.items], nothing=nothing)
        self._left_out.update(found.left_out)
        none = (viewer.t("Nothing is refused"), "")
        refused, turned_away = found.refused, found.turned_away
        self._refused.show([_refused(viewer, one) for one in refused], said=_what_helps(viewer, refused), nothing=none)
        self._turned_away.show(
            [_turned_away(viewer, one) for one in turned_away], said=_what_helps(viewer, turned_away), nothing=none
        )

    def _tell_unheard(self, unheard: list[UnheardView]) -> None:
        t = self._viewer.t
        for one in unheard:
            said = self._viewer.say(one.trouble_text or one.trouble)
            note(t("{name} does not answer: what it alone knows is missing", name=one.node), said, tone="warn")

    def _tell_left_out(self, left_out: int) -> None:
        if left_out:
            tag("p", "pier-quiet", self._viewer.t("and {count} more", count=left_out))


def _what_helps(viewer: Viewer, refused: Sequence[RefusedView | TurnedAwayView]) -> str:
    """Return what to do about all of them, each step once."""
    steps = dict.fromkeys(viewer.say(one.next_step_text or one.next_step) for one in refused)
    return " · ".join(steps)


def _producer(viewer: Viewer, one: ProducerView) -> Row:
    t = viewer.t
    where = f"{one.host or one.node}:{one.path}" if one.path else one.host
    return {
        "key": "/".join((one.key or "", one.source, one.queue or one.agent, one.path or "")),
        "source": _source(viewer, one.source),
        "agent": {**text(one.agent.partition(" (")[0] or "–", cut=True), "title": one.agent},
        "host": text(where or "–", mono=True, cut=True),
        "api_key": text(one.key or "–"),
        "records": number(count(one.records) if one.records is not None else t("tells of none")),
        "oldest": moment(viewer, one.oldest),
        "seen": moment(viewer, one.last_seen),
        "messages": number(count(one.messages)),
    }


def _source(viewer: Viewer, source: str) -> Cell:
    if not source:
        return text(viewer.t("none given"), tone="quiet")
    return place(source, f"/admin/find?{as_query({'source': source})}")


def _refused(viewer: Viewer, one: RefusedView) -> Row:
    return {
        "key": f"{one.node}/{one.source}/{one.destination}",
        "source": _source(viewer, one.source),
        "destination": place(one.destination, f"/admin/destinations/{one.destination}", mono=True),
        "count": number(count(one.count)),
        "why": text(f"{one.status}: {one.reason}"),
        "last": moment(viewer, one.last or one.since),
        "example": text(one.example or "–", mono=True, cut=True),
    }


def _turned_away(viewer: Viewer, one: TurnedAwayView) -> Row:
    return {
        "key": f"{one.node}/{one.whose}/{one.why}",
        "whose": text(one.whose),
        "destination": place(one.destination, f"/admin/destinations/{one.destination}", mono=True),
        "count": number(count(one.count)),
        "why": text(viewer.t(_WHY[one.why])),
        "last": moment(viewer, one.last or one.since),
    }
