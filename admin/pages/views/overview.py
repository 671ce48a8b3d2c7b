"""The overview: alarms, rates, and where messages pile up."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.overview import BusyDestinationView, OpenBreakerView, OverviewView, RatesView
from admin.models.responses.stats import StatsView
from admin.pages.frame import heading, page
from admin.pages.parts.alarms import Alarms
from admin.pages.parts.conditions import condition_badge
from admin.pages.parts.figures import Figures, count, rate, share
from admin.pages.parts.following import following, patient
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import empty
from admin.pages.parts.spans import span_links, span_of
from admin.pages.parts.tables import Cell, Column, Row, moment, number, place, table, text
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import took
from admin.pages.parts.volume import VolumeCharts, volume_charts
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_SHOWN: Final = 50
_CHARTS_EVERY: Final = 10.0
_NAMED: Final = ("key", "destination", "transport")


@page("/", N_("Overview"))
async def overview(viewer: Viewer) -> None:
    """Show how the bus is now, and update it regularly."""
    t = viewer.t
    with heading(t("Overview")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    found = await viewer.api.get("/overview", OverviewView, {"limit": _SHOWN})
    if not found.destinations:
        _begin(viewer)
        return
    now = _CurrentState(viewer, found)
    charts = await _history(viewer)
    tables = _Tables(viewer, found)

    async def look() -> None:
        seen = await viewer.api.watch("/overview", OverviewView, {"limit": _SHOWN})
        now.draw(seen)
        tables.draw(seen)

    async def look_back() -> None:
        if timer.active:
            charts.draw(await _stats(viewer))

    with tools:
        timer = following(viewer, look)
        ui.timer(_CHARTS_EVERY, patient(viewer, look_back), immediate=False)


def _begin(viewer: Viewer) -> None:
    t = viewer.t
    may = viewer.may(Action.CONFIGURE)
    empty(
        t("Nothing flows yet"),
        t("Make a destination, give it a subscription, and send a first message."),
        action=(t("Make a destination"), "/admin/new-destination") if may else None,
    )


async def _stats(viewer: Viewer) -> StatsView:
    return await viewer.api.watch("/stats", StatsView, {"from": span_of(viewer).since(viewer)})


async def _history(viewer: Viewer) -> VolumeCharts:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Over time")):
        with tag("div", "pier-row-of q-mb-sm"):
            tag("h2", "", t("Over time"))
            tag("span", "pier-spacer")
            span_links(viewer, "/admin/")
        charts = volume_charts(viewer)
        charts.draw(await _stats(viewer))
    return charts


class _CurrentState:
    """The alarms and the rates, redrawn in place."""

    def __init__(self, viewer: Viewer, found: OverviewView) -> None:
        self._viewer = viewer
        self._alarms = Alarms(viewer)
        self._figures = Figures()
        self.draw(found)

    def draw(self, found: OverviewView) -> None:
        """Redraw the parts that have changed."""
        self._alarms.draw(found.alarms)
        t, now = self._viewer.t, found.now or RatesView()
        before = t("{count} the hour before", count=count(found.dead_before)) if found.dead or found.dead_before else ""
        self._figures.update(
            [
                (t("accepted a second"), rate(now.accepted_per_second), ""),
                (t("delivered a second"), rate(now.delivered_per_second), ""),
                (t("success of attempts"), share(now.success_rate), ""),
                (t("p50 / p99 latency"), took(now.p50_ms), f"/ {took(now.p99_ms)}"),
                (t("waiting on the transports"), count(found.backlog), ""),
                (t("waiting for a retry"), count(found.retrying), ""),
                (t("died within the hour"), count(found.dead), before),
                (t("open breakers"), count(len(found.breakers)), ""),
            ]
        )


class _Tables:
    """The destinations, and the breakers that are open; rows stay where they are."""

    def __init__(self, viewer: Viewer, found: OverviewView) -> None:
        t = viewer.t
        self._viewer = viewer
        with tag("section", "pier-card", aria_label=t("Destinations")):
            with tag("div", "pier-row-of"):
                tag("h2", "", t("Destinations"))
                self._news = LivePart(self._tell_new)
            self._destinations = table(self._columns(), self._rows(found), label=t("Destinations"))
            self._left_out = LivePart(self._tell_left_out)
        self._breakers = LivePart(lambda seen: _breaker_table(viewer, seen) if seen else None)
        self.draw(found)

    def draw(self, found: OverviewView) -> None:
        """Redraw the parts that have changed."""
        self._breakers.update(found.breakers)
        self._left_out.update(found.left_out.destinations)
        rows = {row["key"]: row for row in self._rows(found)}
        shown = [rows.pop(row["key"], {}) or _unknown(row) for row in self._destinations.rows]
        if shown != self._destinations.rows:
            self._destinations.rows = shown
        self._news.update(len(rows))

    def _tell_new(self, new: int) -> None:
        if new:
            link(self._viewer.t("{count} more: show them", count=new), "/admin/")

    def _tell_left_out(self, left_out: int) -> None:
        if left_out:
            link(self._viewer.t("and {count} more", count=left_out), "/admin/destinations")

    def _columns(self) -> list[Column]:
        t = self._viewer.t
        return [
            Column("destination", t("Destination")),
            Column("transport", t("Transport")),
            Column("accepted", t("In a second"), is_number=True),
            Column("delivered", t("Out a second"), is_number=True),
            Column("success", t("Success"), is_number=True),
            Column("p99", t("p99"), is_number=True),
            Column("backlog", t("Waiting"), is_number=True),
            Column("retrying", t("Retrying"), is_number=True),
            Column("oldest", t("Oldest")),
            Column("state", t("State")),
        ]

    def _rows(self, found: OverviewView) -> list[Row]:
        return [self._row(one) for one in found.destinations]

    def _row(self, one: BusyDestinationView) -> Row:
        viewer, code = self._viewer, one.destination
        return {
            "key": code,
            "destination": place(code, f"/admin/destinations/{code}", mono=True),
            "transport": text(one.transport),
            "accepted": number(rate(one.accepted_per_second)),
            "delivered": number(rate(one.delivered_per_second)),
            "success": number(share(one.success_rate)),
            "p99": number(took(one.p99_ms)),
            "backlog": number(count(one.backlog)),
            "retrying": self._retrying(code, one.retrying),
            "oldest": moment(viewer, one.oldest),
            "state": condition_badge(viewer, one.state),
        }

    def _retrying(self, code: str, retrying: int | None) -> Cell:
        if not retrying:
            return number(count(retrying))
        return {
            **place(count(retrying), f"/admin/failures?destination={code}"),
            "title": self._viewer.t("See what fails"),
        }


def _unknown(row: Row) -> Row:
    """Return the row of a destination that is no longer among the busiest, or was removed: without figures."""
    return {name: value if name in _NAMED else number("–") for name, value in row.items()}


def _breaker_table(viewer: Viewer, found: list[OpenBreakerView]) -> None:
    t = viewer.t
    rows = [
        {
            "key": f"{one.destination}/{one.subscription}/{one.node}",
            "subscription": place(
                f"{one.destination} / {one.subscription}",
                f"/admin/destinations/{one.destination}/subscriptions/{one.subscription}",
            ),
            "node": text(one.node, mono=True),
            "since": moment(viewer, one.since),
            "next": moment(viewer, one.next_probe),
            "answered": text(one.answered or t("no answer")),
        }
        for one in found
    ]
    columns = [
        Column("subscription", t("Subscription")),
        Column("node", t("Process")),
        Column("since", t("Open since")),
        Column("next", t("Next probe")),
        Column("answered", t("Last answer")),
    ]
    with tag("section", "pier-card", aria_label=t("Open breakers")):
        tag("h2", "", t("Open breakers"))
        tag(
            "p",
            "pier-quiet",
            t("No attempt is spent meanwhile. No answer: it may be down. 4xx (not 408, 425, 429): it refuses."),
        )
        table(columns, rows, label=t("Open breakers"))
