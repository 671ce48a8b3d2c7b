"""The results of a search, its progress, and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from admin.models.responses.base import Listing
from admin.models.responses.configuration import DestinationView
from admin.models.responses.messages import MessageRow, MessagesView, SearchedView
from admin.pages.api_error import ApiError
from admin.pages.finding.columns import cells, chooser, chosen, columns
from admin.pages.finding.filters import Filters, query_of
from admin.pages.finding.resending import TickedResend
from admin.pages.parts.figures import count
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import empty, note, refusal
from admin.pages.parts.selection_bar import SelectionBar
from admin.pages.parts.summary import SummaryPart
from admin.pages.parts.tables import Cell, Column, Row, place, state, table
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status
from bus.security.keys import Action
from bus.suggestions import nearest

_FORBIDDEN: Final = 403
_WRONG: Final = (400, 422)
_AWAY: Final = (408, 503, 504)
_WIDER: Final = {"15m": "1h", "1h": "1d", "1d": "7d"}
_WIDEST: Final = 36


class Results:
    """The answer to one search; ``known`` are the destinations that there are."""

    def __init__(self, viewer: Viewer, filters: Filters, found: MessagesView, known: Sequence[str]) -> None:
        self._known = known
        self._viewer = viewer
        self._filters = filters
        self._items: list[MessageRow] = found.items
        self._next: str = found.next or ""
        self._searched: SearchedView = found.searched

    def show(self) -> None:
        """Build it."""
        if self._items:
            SummaryPart(self._viewer, self._filters.asked(), _narrower, is_open=False)
            with tag("div", "pier-row-of pier-over"):
                self._reach()
                tag("span", "pier-spacer")
                chooser(self._viewer)
            self._table()
            self._pages()
        elif self._next:
            self._ran_out()
        else:
            self._nothing()

    def _table(self) -> None:
        t = self._viewer.t
        names = chosen(self._viewer)
        always = [Column("message", t("Message"), sorts=True), Column("status", t("Status"), sorts=True)]
        ticking = self._ticking()
        rows = [self._row(item, names) for item in self._items]
        shown = table([*always, *columns(self._viewer, names)], rows, label=t("Messages"))
        shown.classes("pier-found")
        if ticking is not None:
            ticking.of(shown, by="message")

    def _ticking(self) -> SelectionBar | None:
        """Show what resends ticked rows, to whom may resend."""
        viewer = self._viewer
        if not viewer.may(Action.RESEND, self._filters.get("destination") or None):
            return None
        resend = TickedResend(viewer, tag("div", "", aria_live="polite"))
        return SelectionBar(viewer, viewer.t("Resend these…"), resend.ask)

    def _row(self, item: MessageRow, names: list[str]) -> Row:
        return {
            "key": item.id,
            "message": place(item.id, f"/admin/messages/{item.id}", mono=True),
            "status": status_cell(self._viewer, item),
            **cells(self._viewer, item, names),
        }

    def _reach(self) -> None:
        """Say which range was searched, and whether there is more."""
        shown = self._viewer.t("{count} shown", count=count(len(self._items)))
        tag("p", "pier-reach", f"{shown} · {self._range()}", role="status")

    def _pages(self) -> None:
        t = self._viewer.t
        with tag("nav", "pier-row-of", aria_label=t("Pages of results")):
            if self._filters.cursor:
                link(t("Newest"), self._filters.href(), "pier-button")
            if self._next:
                link(t("Older"), self._older(), "pier-button", rel="next")

    def _range(self) -> str:
        t = self._viewer.t
        reached = self._viewer.time(self._searched.since) or self._oldest()
        if self._is_short:
            return t("partial: time ran out, searched back to {time}; go on with “Older”", time=reached)
        if self._next:
            return t("searched back to {time}; there are older ones", time=reached)
        return t("complete: searched back to {time}", time=reached) if reached else t("complete: all that is stored")

    @property
    def _is_short(self) -> bool:
        """Whether the search ran out of time before its page was full."""
        return bool(self._next) and not self._searched.complete and self._searched.reason != "limit"

    def _oldest(self) -> str:
        if not self._next or not self._items:
            return self._viewer.time(self._filters.asked().get("from"))
        last = self._items[-1]
        return self._viewer.time(last.received_at or last.sent_at)

    def _older(self) -> str:
        return f"/admin/find?{query_of({**self._filters.query(), 'cursor': self._next})}"

    def _ran_out(self) -> None:
        t = self._viewer.t
        reached = self._viewer.time(self._searched.since)
        said = t("Searched back to {time}, nothing so far.", time=reached) if reached else t("Nothing so far.")
        with note(t("The search took its time and is not through"), said, tone="warn"), tag("p"):
            link(t("Go on from there"), self._older(), "pier-button", rel="next")
            tag("span", "pier-quiet", t("A destination, a status or a shorter time makes it quicker."))

    def _nothing(self) -> None:
        t, filters = self._viewer.t, self._filters
        if filters.cursor:
            empty(t("There are no older ones"), action=(t("Newest"), filters.href()))
        elif not filters.is_any:
            said = t("What a producer sends is here within a second.")
            empty(t("No messages yet"), said, action=(t("Destinations"), "/admin/destinations"))
        elif filters.get("ref"):
            empty(
                t("No message has this id"), t("Ids are compared whole. It may be past its retention, or not sent yet.")
            )
        elif filters.get("destination") and filters.get("destination") not in self._known:
            self._unknown(filters.get("destination"))
        elif filters.last:
            wider = _WIDER.get(filters.last, "")
            more = (t("Search a longer time"), filters.href(last=wider))
            empty(t("No message meets these filters"), self._everywhere(), action=more)
        else:
            empty(t("No message meets these filters"), self._everywhere(), action=(t("Clear"), "/admin/find"))

    def _unknown(self, code: str) -> None:
        t, meant = self._viewer.t, nearest(code, self._known)
        action = (t("Search {name}", name=meant), self._filters.href(destination=meant)) if meant else None
        said = t("There may have been one, whose messages are past their retention.")
        empty(t("There is no destination {name}", name=visible(code)), said, action=action)

    def _everywhere(self) -> str:
        since = self._viewer.time(self._filters.asked().get("from"))
        if since:
            return self._viewer.t("Everything since {time} was searched.", time=since)
        return self._viewer.t("Everything that is stored was searched.")


def _narrower(selection: Mapping[str, str]) -> str:
    return f"/admin/find?{query_of(selection)}"


def status_cell(viewer: Viewer, item: MessageRow) -> Cell:
    """Return a cell with a message's state; while it is retried also how often it was, and when it is next."""
    return state(viewer, item.status, next_try(viewer, item))


def next_try(viewer: Viewer, item: MessageRow) -> str:
    """Return the number of the last attempt, and when the next one is due; empty where there is none."""
    made, due = item.attempts, item.next_attempt_at
    if item.status != Status.RETRYING:
        return ""
    if not due:
        return viewer.t("attempt {n}", n=made)
    return viewer.t("attempt {n}, next at {time}", n=made, time=viewer.near(due))


async def failed(viewer: Viewer, error: ApiError) -> None:
    """Show why a search was refused, and what to do: each reason looks different."""
    t, detail, hint = viewer.t, viewer.say(error.detail), viewer.say(error.hint)
    if error.status == _FORBIDDEN:
        found = await viewer.api.get("/destinations", Listing[DestinationView])
        with note(t("You may not search there"), detail, tone="warn"):
            if hint:
                tag("p", "pier-quiet", hint)
            tag("p", "pier-quiet", t("Choose one of the destinations that you may see:"))
            with tag("p", "pier-row-of"):
                for one in found.items[:_WIDEST]:
                    link(one.code, f"/admin/find?{query_of({'destination': one.code})}", "pier-chip pier-bidi")
    elif error.status in _WRONG:
        with note(t("This filter is not possible"), detail, tone="bad"):
            tag("p", "pier-quiet", hint or t("Correct it above, and search again; nothing was searched."))
    elif error.status in _AWAY:
        with note(t("The store did not answer in time"), detail, tone="bad"):
            tag("p", "pier-quiet", t("No message is lost: they wait in the spools. Try again in a moment."))
            link(t("Try again"), viewer_href(viewer), "pier-button")
    else:
        refusal(viewer, error)


def viewer_href(viewer: Viewer) -> str:
    """Return the URL of the page that the viewer is at."""
    return f"/admin/find?{query_of(viewer.query)}"
