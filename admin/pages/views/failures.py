"""The page of failures, grouped by subscription and kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nicegui import ui

from admin.models.responses.failures import FailureGroupView, FailuresView
from admin.pages.frame import heading, page
from admin.pages.parts.failure_groups import group_href, resend_href, states_of
from admin.pages.parts.following import following
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import empty, note
from admin.pages.parts.selections import said, selection_of
from admin.pages.parts.spans import Span, span_links
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, going, moment, place, table, text
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_ANY: Final = Span("", N_("Any time"))
_SPANS: Final = (_ANY, Span("1h", N_("Last hour")), Span("1d", N_("Last day")), Span("7d", N_("Last week")))
_ASKED: Final = ("destination", "subscription", "from", "to")


@page("/failures", N_("Failures"))
async def failures(viewer: Viewer) -> None:
    """Show what fails, the largest group first."""
    t = viewer.t
    asked = {name: value for name, value in selection_of(viewer).items() if name in _ASKED}
    with heading(t("Failures")):
        tag("span", "pier-spacer")
        span_links(viewer, "/admin/failures", _SPANS)
        tools = tag("span")
    _conditions(viewer, asked)
    found = await viewer.api.get("/failures", FailuresView, asked)
    groups = found.items
    if not groups:
        empty(
            t("Nothing fails"),
            t("No delivery is retried, parked or dead in this range."),
            action=(t("See all messages"), "/admin/find"),
        )
        return
    _tell_complete(viewer, found)
    shown = _Groups(viewer, asked, groups)
    with tools:
        following(viewer, shown.look)


def _conditions(viewer: Viewer, asked: Mapping[str, str]) -> None:
    shown = [(name, value) for name, value in said(viewer, asked)]
    if shown:
        with tag("p", "pier-row-of"):
            for name, value in shown:
                chip(f"{name}: {value}")
            link(viewer.t("Clear"), "/admin/failures")


def _tell_complete(viewer: Viewer, found: FailuresView) -> None:
    t = viewer.t
    if found.complete_since:
        since = viewer.time(found.complete_since)
        note(
            t("Not everything was looked at"),
            t("Messages made before {since} are not counted here: choose a shorter range.", since=since),
            tone="warn",
        )
    elif not found.complete:
        note(t("There are more groups"), t("The largest are shown: choose a destination for the others."))


class _Groups:
    """The table of groups, which keeps its rows in place while their counts change."""

    def __init__(self, viewer: Viewer, asked: Mapping[str, str], groups: list[FailureGroupView]) -> None:
        t = viewer.t
        self._viewer = viewer
        self._asked = asked
        self._news = tag("p", "pier-row-of")
        columns = [
            Column("subscription", t("Subscription")),
            Column("signature", t("How it fails")),
            Column("count", t("Deliveries")),
            Column("last", t("Last seen")),
            Column("resend", t("Resend")),
        ]
        self._table = table(columns, [self._row(group) for group in groups], label=t("Groups of failures"))
        self._table.classes("pier-decided")

    async def look(self) -> None:
        """Read the present counts of the groups."""
        found = await self._viewer.api.get("/failures", FailuresView, self._asked)
        rows = {row["key"]: row for row in map(self._row, found.items)}
        known = [row["key"] for row in self._table.rows]
        # Rows stay where they are: a group that is over keeps its place with no deliveries.
        self._table.rows = [rows.get(key) or self._ended(row) for key, row in zip(known, self._table.rows, strict=True)]
        self._tell_new(len(set(rows) - set(known)))

    def _tell_new(self, new: int) -> None:
        self._news.clear()
        with self._news:
            if new:
                ui.button(
                    self._viewer.t("{count} new: show them", count=new), on_click=ui.navigate.reload, color=None
                ).classes("pier-plain")

    def _ended(self, row: Row) -> Row:
        return {**row, "count": text(self._viewer.t("none any more"), tone="quiet"), "resend": None}

    def _row(self, group: FailureGroupView) -> Row:
        viewer, code, name = self._viewer, group.destination, group.subscription
        said = visible(viewer.reason(group.example)) or viewer.t("no reason was recorded")
        may = viewer.may(Action.RESEND, code)
        return {
            "key": f"{code}/{name}/{group.signature}",
            "subscription": place(f"{code} / {name}", f"/admin/destinations/{code}/subscriptions/{name}", wraps=True),
            "signature": place(said, group_href(group.filter), wraps=True, title=said),
            "count": text(states_of(viewer, group)),
            "last": moment(viewer, group.last_seen),
            "resend": going(viewer.t("Resend…"), resend_href(group.filter)) if may else None,
        }
