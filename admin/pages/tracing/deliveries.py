"""The deliveries of a message, each with its attempts in a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from nicegui.events import GenericEventArguments

from admin.models.responses.messages import AttemptView, DeliveryView, TraceView
from admin.pages.finding.filters import query_of
from admin.pages.parts.answers import answer
from admin.pages.parts.copying import copied
from admin.pages.parts.figures import count
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.states import state_chip
from admin.pages.parts.tables import Column, Row, Table, moment, table, text
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment as shown_moment
from admin.pages.parts.times import took
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status
from bus.domain.identity import id_time
from bus.domain.times import format_time
from bus.localized_text import N_

Open = Callable[[str, str], Awaitable[None]]
_TITLES: Final = {
    "road": N_("as published"),
    "retry": N_("retry"),
    "stuck": N_("stuck"),
    "resend": N_("resend"),
}
_SCROLLED: Final = 14
_FAILED: Final = (Status.DEAD, Status.PARKED, Status.RETRYING)
# Rows of a scrolled table have another parent than others, so clicks are handled at the table itself.
_CHOSEN: Final = """(event) => {
  const button = event.target.closest("[data-attempt]");
  if (button) emit(button.dataset.attempt);
}"""


class Delivery:
    """One delivery; ``show_attempt`` opens an attempt of a subscription."""

    def __init__(self, viewer: Viewer, trace: TraceView, name: str, show_attempt: Open) -> None:
        self._viewer = viewer
        self._code: str = trace.destination
        self._since = format_time(id_time(trace.id))
        self._name = name
        self._show_attempt = show_attempt
        self._rows: list[Row] = []
        with tag("section", "pier-card", id=f"delivery-{name}", aria_label=viewer.t("Delivery to {name}", name=name)):
            self._head = LivePart(self._build_head)
            self._table = self._attempts()
            self._none = tag("p", "pier-quiet", viewer.t("No attempt yet."))

    def update(self, delivery: DeliveryView) -> None:
        """Show the state of the delivery and its attempts; the rows of a table keep their place."""
        self._head.update(msgspec.structs.replace(delivery, attempts=[]))
        rows = [self._row(attempt) for attempt in delivery.attempts]
        self._none.set_visibility(not rows)
        self._table.set_visibility(bool(rows))
        if rows != self._rows:
            self._rows = rows
            self._table.rows = rows
            if len(rows) > _SCROLLED:
                self._table.props("virtual-scroll virtual-scroll-item-size=36").classes("pier-scrolled")

    def _build_head(self, delivery: DeliveryView) -> None:
        t, viewer = self._viewer.t, self._viewer
        with tag("div", "pier-row-of pier-delivery"):
            with tag("h2"):
                link(self._name, f"/admin/destinations/{self._code}/subscriptions/{self._name}", "pier-bidi")
            state_chip(viewer, delivery.status, self._more(delivery))
            if delivery.at:
                shown_moment(viewer, delivery.at)
            tag("span", "pier-spacer")
            if delivery.status in _FAILED and viewer.may("resend", self._code):
                wanted = {"destination": self._code, "subscription": self._name, "from": self._since}
                dead = query_of({**wanted, "status": "dead"})
                link(t("All failed since this message…"), f"/admin/resends/new?{dead}")
        with tag("p", "pier-quiet pier-address"):
            copied(viewer, delivery.url)
        by = next((resend.by for resend in reversed(delivery.resends)), "")
        told = (viewer.reason(part, by=by) for part in (delivery.reason, delivery.detail) if part)
        why = " · ".join(told)
        if why:
            tag("p", "pier-bidi pier-address", visible(why))
        self._held(delivery)
        self._left_out(delivery)
        self._resends(delivery)

    def _more(self, delivery: DeliveryView) -> str:
        """Return how often it was tried, and when it is tried next."""
        t, made, due = self._viewer.t, delivery.attempts_made, delivery.due_at
        if delivery.status not in (Status.RETRYING, Status.RESEND) or not due:
            return ""
        time = self._viewer.near(due)
        return t("attempt {n}, next at {time}", n=made, time=time) if made else t("next at {time}", time=time)

    def _held(self, delivery: DeliveryView) -> None:
        """Show why the delivery is not in flight now, unless its state or reason says so already."""
        held = delivery.held
        if held is not None and held.cause not in ("retry", delivery.reason):
            told = visible(self._viewer.say(held.what_text or held.what))
            tag("p", "pier-bidi pier-address", self._viewer.t("Now: {cause}", cause=told))

    def _left_out(self, delivery: DeliveryView) -> None:
        made, kept = delivery.attempts_made, delivery.attempts_kept
        if made > kept:
            said = self._viewer.t(
                "{made} attempts were made; {kept} of them are kept.", made=count(made), kept=count(kept)
            )
            tag("p", "pier-warn", said)

    def _resends(self, delivery: DeliveryView) -> None:
        t, viewer = self._viewer.t, self._viewer
        resends = delivery.resends
        if not resends:
            return
        with tag("details", "pier-more"):
            tag("summary", "", t("Resends ({count})", count=len(resends)))
            with tag("ul", "pier-list"):
                for resend in resends:
                    with tag("li"):
                        shown_moment(viewer, resend.at)
                        tag(
                            "span",
                            "pier-bidi",
                            f" {resend.by} {visible(viewer.reason(resend.reason, by=resend.by))} ",
                        )
                        if resend.job:
                            link(t("job"), f"/admin/resends/{resend.job}")

    def _attempts(self) -> Table:
        t = self._viewer.t
        columns = [
            Column("n", "#", is_number=True, shows="opening"),
            Column("answer", t("Answer")),
            Column("started", t("Began")),
            Column("took", t("Took"), is_number=True),
            Column("by", t("Cause")),
            Column("error", t("Error")),
            Column("node", t("Node")),
        ]
        shown = table(columns, [], label=t("Attempts of {name}", name=self._name))
        shown.classes("pier-attempts")
        shown.on("click", self._opened, js_handler=_CHOSEN)
        return shown

    async def _opened(self, event: GenericEventArguments) -> None:
        await self._show_attempt(self._name, str(event.args))

    def _row(self, attempt: AttemptView) -> Row:
        t, viewer, by = self._viewer.t, self._viewer, attempt.by
        return {
            "key": attempt.id,
            "n": {"text": str(attempt.n), "said": t("Attempt {n}: request and response", n=attempt.n)},
            "answer": answer(viewer, attempt.status_code, attempt.error),
            "started": moment(viewer, attempt.started_at),
            "took": text(took(attempt.duration_ms)),
            "by": text(t(_TITLES[by]) if by in _TITLES else by),
            "error": text(visible(attempt.error or ""), cut=True),
            "node": text(attempt.node, cut=True, mono=True),
        }
