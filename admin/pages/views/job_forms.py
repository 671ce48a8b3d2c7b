"""The forms before a resend and a discard: exactly which deliveries, and the reason."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.resends import JobView, PreviewView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.figures import count, pairs
from admin.pages.parts.forms import Form
from admin.pages.parts.notes import empty, note
from admin.pages.parts.previews import show_sample, tell_extent
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.selections import as_query, older_than, said, selection_of
from admin.pages.parts.states import LOOKS
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status
from bus.localized_text import N_

# For more than these the count must be typed before they are resent.
_MANY: Final = 100
_STATES: Final = (Status.PENDING, Status.RETRYING, Status.PARKED, Status.DEAD)
_AGES: Final = {"1h": N_("older than an hour"), "1d": N_("older than a day"), "7d": N_("older than a week")}
_PATH: Final = "/admin/resends/discard"


@page("/resends/new", N_("New resend"))
async def new_resend(viewer: Viewer) -> None:
    """Show the deliveries that would be resent, and ask for a reason."""
    t = viewer.t
    heading(t("New resend"))
    selection = selection_of(viewer)
    found = (await viewer.api.post("/resends", {"filter": selection, "dry_run": True})).read(PreviewView)
    number = count(found.count)
    with tag("section", "pier-card", aria_label=t("What")):
        tag("h2", "", t("{count} deliveries would be resent", count=number))
        tell_extent(viewer, found)
        pairs(said(viewer, found.filter) or [(t("What"), t("every message"))])
    if not found.count:
        empty(
            t("Nothing matches"),
            t("Take away a condition, or choose a longer time."),
            action=(t("Back to the search"), "/admin/find"),
        )
        return
    show_sample(viewer, found)
    _ask_resend(viewer, found)


def _ask_resend(viewer: Viewer, found: PreviewView) -> None:
    t, wanted = viewer.t, str(found.count)
    is_typed = found.count > _MANY or not found.complete
    with tag("section", "pier-card", aria_label=t("Resend")):
        form = Form(viewer)
        with tag("div", "pier-form"):
            form.text("reason", t("Reason"), hint=t("Stands in every trace and in the audit log."))
            form.number("rate", t("Messages a second"), None, hint=t("Empty: as fast as subscriptions take it."))
            if is_typed:
                form.text("typed", t("Type {text} to go on", text=wanted))

        async def begin() -> None:
            if not form.require("reason", t("Say why: others will read it.")):
                return
            if is_typed and form.value("typed") != wanted:
                form.fail("typed", t("Type {text} to go on", text=wanted))
                return
            body = {"filter": found.filter, "rate": form.value("rate"), "reason": form.value("reason")}
            if (made := await sent_again(viewer, "/resends", body)) is not None:
                ui.navigate.to(f"/resends/{made.read(JobView).id}")

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Resend {count} deliveries", count=count(found.count)), begin)
            to(t("Leave it"), "/admin/failures")


@page("/resends/discard", N_("Discard a backlog"))
async def new_discard(viewer: Viewer) -> None:
    """Show the deliveries that would be discarded, and ask for a reason."""
    t = viewer.t
    selection = selection_of(viewer)
    code, name = selection.get("destination", ""), selection.get("subscription", "")
    heading(t("Discard the backlog of {name}", name=name))
    _choices(viewer, selection)
    age = viewer.query.get("age", "")
    wanted = older_than(selection, age, viewer.now()) if age in _AGES else selection
    body = {"filter": wanted, "dry_run": True}
    found = (await viewer.api.post("/discards", body)).read(PreviewView)
    with tag("section", "pier-card", aria_label=t("What")):
        tag("h2", "", t("{count} deliveries would be discarded", count=count(found.count)))
        tell_extent(viewer, found)
        pairs(said(viewer, found.filter))
    back = f"/admin/destinations/{code}/subscriptions/{name}"
    if not found.count:
        empty(
            t("Nothing matches"),
            t("It has nothing that is not delivered and meets these conditions."),
            action=(t("Back to the subscription"), back),
        )
        return
    show_sample(viewer, found)
    _ask_discard(viewer, found, name, back)


def _choices(viewer: Viewer, selection: dict[str, str]) -> None:
    """Show which states and ages there are to choose from."""
    t, age = viewer.t, viewer.query.get("age", "")
    states = {"": t("all that is not delivered"), **{state.value: t(LOOKS[state].text) for state in _STATES}}
    ages = {"": t("of any age"), **{name: t(text) for name, text in _AGES.items()}}
    with tag("div", "pier-row-of q-mb-md"):
        with tag("nav", "pier-tabs", aria_label=t("Status")):
            for value, text in states.items():
                href = f"{_PATH}?{as_query(selection | {'status': value, 'age': age})}"
                link(text, href, aria_current="true" if value == selection.get("status", "") else None)
        with tag("nav", "pier-tabs", aria_label=t("Age")):
            for value, text in ages.items():
                href = f"{_PATH}?{as_query(selection | {'age': value})}"
                link(text, href, aria_current="true" if value == age else None)


def _ask_discard(viewer: Viewer, found: PreviewView, name: str, back: str) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Discard")):
        note(
            t("Nobody gets them unless they are resent"),
            t(
                "They end as canceled, with your name and reason; other subscriptions of the same messages go on. "
                "What is under way at this moment may still be delivered."
            ),
            tone="warn",
        )
        form = Form(viewer)
        with tag("div", "pier-form"):
            form.text("reason", t("Reason"), hint=t("Stands in every trace and in the audit log."))
            form.text("typed", t("Type {text} to go on", text=name))

        async def begin() -> None:
            if not form.require("reason", t("Say why: others will read it.")):
                return
            if form.value("typed") != name:
                form.fail("typed", t("Type {text} to go on", text=name))
                return
            body = {"filter": found.filter, "reason": form.value("reason")}
            made = await viewer.api.post("/discards", body)
            ui.navigate.to(f"/resends/{made.read(JobView).id}")

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Discard {count} deliveries", count=count(found.count)), begin)
            to(t("Leave it"), back)
