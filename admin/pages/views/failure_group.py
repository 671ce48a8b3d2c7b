"""Deliveries of one subscription with the same failure: their times, common values, examples and repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nicegui import ui

from admin.models.responses.failures import FailureGroupView, FailuresView
from admin.models.responses.messages import MessageRow, MessagesView
from admin.models.responses.resends import JobView
from admin.pages.frame import heading, page
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.buttons import to
from admin.pages.parts.conditions import ConditionCard
from admin.pages.parts.failure_groups import GROUP, resend_href, states_of
from admin.pages.parts.figures import count
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import empty
from admin.pages.parts.reasons import asked_reason
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.selection_bar import SelectionBar
from admin.pages.parts.selections import as_query, selection_of
from admin.pages.parts.summary import SummaryPart
from admin.pages.parts.tables import Column, Row, moment, place, state, table, text
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_EXAMPLES: Final = 10
_NAMED: Final = ("destination", "subscription", "signature")


@page(GROUP, N_("Failure"))
async def failure_group(viewer: Viewer) -> None:
    """Show one group."""
    asked = {name: viewer.query[name] for name in (*_NAMED, "from", "to") if viewer.query.get(name)}
    asked = {**selection_of(viewer), **asked}
    if not all(name in viewer.query for name in _NAMED[:2]):
        _gone(viewer, asked)
        return
    found = await viewer.api.get("/failures", FailuresView, {"signature": "", **asked, "limit": 1})
    if not found.items:
        _gone(viewer, asked)
        return
    await _show(viewer, found.items[0])


def _gone(viewer: Viewer, asked: Mapping[str, str]) -> None:
    t = viewer.t
    heading(t("Failure"))
    wider = {name: value for name, value in asked.items() if name in ("destination", "subscription")}
    empty(
        t("Nothing fails like this any more"),
        t("It was delivered or resent meanwhile, or a person decided about it."),
        action=(t("See what fails"), f"/admin/failures?{as_query(wider)}"),
    )


async def _show(viewer: Viewer, group: FailureGroupView) -> None:
    t, code, name = viewer.t, group.destination, group.subscription
    with tag("p", "pier-quiet q-mb-none pier-row-of"):
        link(t("Failures"), "/admin/failures")
        link(f"{code} / {name}", f"/admin/destinations/{code}/subscriptions/{name}", "pier-bidi")
    with heading(visible(viewer.reason(group.example)) or t("no reason was recorded")):
        tag("span", "pier-spacer")
        to(t("Messages"), f"/admin/find?{as_query(group.filter)}", icon="search")
        if viewer.may(Action.RESEND, code):
            said = t("Resend all {count}…", count=count(group.count))
            to(said, resend_href(group.filter), kind="primary", icon="replay")
    with tag("p", "pier-row-of"):
        tag("strong", "", states_of(viewer, group))
        tag("span", "pier-quiet", t("first at {time}", time=viewer.time(group.first_seen)))
        tag("span", "pier-quiet", t("last at {time}", time=viewer.time(group.last_seen)))
    tag("p", "", t("What helps: {advice}", advice=viewer.say(group.advice_text or group.advice)))
    await ConditionCard(viewer, code, name, has_failures=False).follow()
    SummaryPart(viewer, group.filter, lambda narrower: f"/admin/find?{as_query(narrower)}", is_open=True)
    await _examples(viewer, group)


async def _examples(viewer: Viewer, group: FailureGroupView) -> None:
    t = viewer.t
    found = await viewer.api.get("/messages", MessagesView, {**group.filter, "limit": _EXAMPLES})
    tag("h2", "pier-section", t("The newest"))
    ticking = None
    if viewer.may(Action.RESEND, group.destination):
        ticking = SelectionBar(viewer, t("Resend these…"), lambda rows: _ask(viewer, group, rows))
    columns = [
        Column("message", t("Message")),
        Column("status", t("Status")),
        Column("time", t("Received")),
        Column("biz_id", t("Biz id")),
        Column("source", t("Source")),
        Column("attempts", t("Attempts"), is_number=True),
    ]
    shown = table(columns, [_row(viewer, item) for item in found.items], label=t("The newest"))
    shown.classes("pier-found")
    if ticking is not None:
        ticking.of(shown, by="message")
    if found.next:
        link(t("See all of these messages"), f"/admin/find?{as_query(group.filter)}")


def _row(viewer: Viewer, item: MessageRow) -> Row:
    return {
        "key": item.id,
        "message": place(item.id, f"/admin/messages/{item.id}", mono=True),
        "status": state(viewer, item.status),
        "time": moment(viewer, item.received_at or item.sent_at),
        "biz_id": text(visible(item.biz_id), cut=True),
        "source": text(visible(item.source), cut=True),
        "attempts": text(count(item.attempts)),
    }


async def _ask(viewer: Viewer, group: FailureGroupView, rows: Sequence[Row]) -> None:
    t = viewer.t
    names = [{"id": str(row["key"]), "subscription": group.subscription} for row in rows]
    with dialog(t("Resend {count} deliveries to {name}", count=len(names), name=group.subscription)) as asking:
        tag("p", "", t("Each keeps its id. What was delivered meanwhile is left alone."))
        why = asked_reason(viewer)

        async def act() -> bool:
            body = {"destination": group.destination, "deliveries": names, "reason": (why.value or "").strip()}
            made = await sent_again(viewer, "/resends/deliveries", body)
            if made is None:
                return False
            ui.navigate.to(f"/resends/{made.read(JobView).id}")
            return True

        answers(viewer, asking, t("Resend"), act)
