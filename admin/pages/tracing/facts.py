"""The facts of a message: its state, times and fields, and its links to edits and replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from admin.models.responses.messages import EditView, MessageView, ReplayView, TraceView
from admin.pages.finding.filters import query_of
from admin.pages.parts.copying import copied, copy_button
from admin.pages.parts.figures import pairs, size
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import note
from admin.pages.parts.states import chip, state_chip
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment, waited
from admin.pages.viewer import Viewer
from bus.domain.identity import id_time
from bus.domain.times import format_time, parse_time
from bus.localized_text import N_

_TITLES: Final = {
    "key": N_("Key"),
    "routing_key": N_("Routing key"),
    "source": N_("Source"),
    "content_type": N_("Content type"),
    "idempotency_key": N_("Idempotency key"),
    "original_id": N_("Id before"),
    "traceparent": N_("Trace context"),
}
_IDS: Final = frozenset({"key", "idempotency_key", "original_id"})
_AROUND: Final = 300_000
_OF_A_TRACEPARENT: Final = 4


class Facts:
    """The head of the page."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def show(self, trace: TraceView) -> None:
        """Build it from a trace."""
        t = self._viewer.t
        message = trace.message
        with tag("section", "pier-card pier-facts", aria_label=t("What it is")):
            code = trace.destination
            where = (t("Destination"), lambda: link(code, f"/admin/destinations/{code}", "pier-bidi"))
            pairs([where, *self._times(trace), *self._names(trace)])
            if not message:
                said = t(
                    "What is shown comes from its deliveries; the message itself follows, or is past its retention."
                )
                note(t("The message itself is not in the store"), said, tone="warn")
            elif message.headers:
                self._headers(message.headers)

    def _times(self, trace: TraceView) -> list[tuple[str, object]]:
        t, viewer = self._viewer.t, self._viewer
        sent, received, completed = trace.sent_at, trace.received_at, trace.completed_at
        shown: list[tuple[str, object]] = []
        for name, time in ((t("Sent"), sent), (t("Received"), received), (t("Finished"), completed)):
            if time:
                shown.append((name, self._moment(time, after=sent if time != sent else None)))
        if trace.message and trace.message.deliver_at:
            deliver_at = trace.message.deliver_at
            shown.append((t("Deliver at"), lambda: moment(viewer, deliver_at)))
        return shown

    def _moment(self, time: str, *, after: str | None) -> Callable[[], None]:
        def show() -> None:
            moment(self._viewer, time)
            if after is not None:
                passed = max(0, parse_time(time) - parse_time(after)) / 1000
                said = self._viewer.t("{time} after it was sent", time=waited(passed))
                tag("span", "pier-quiet", f" {said}")

        return show

    def _names(self, trace: TraceView) -> list[tuple[str, object]]:
        t = self._viewer.t
        shown: list[tuple[str, object]] = []
        if trace.biz_id:
            biz_id = trace.biz_id
            shown.append((t("Biz id"), self._called(biz_id)))
        message = trace.message
        plain = _plain(message) if message else {}
        shown += [(t(_TITLES[name]), self._shown(name, value)) for name, value in plain.items() if value]
        parts = message.traceparent.split("-") if message else []
        if len(parts) >= _OF_A_TRACEPARENT:
            shown.append((t(_TITLES["traceparent"]), self._called(parts[1])))
        shown.append((t("Size"), size(trace.bytes)))
        if message and message.retention_days:
            shown.append((t("Kept for"), t("{days} days", days=message.retention_days)))
        return shown

    def _called(self, name: str) -> Callable[[], None]:
        """Return what shows an id by which messages are found, with a button that copies it."""

        def show() -> None:
            with tag("span", "pier-copied"):
                link(visible(name), _found("ref", name), "pier-bidi")
                copy_button(self._viewer, name)

        return show

    def _shown(self, name: str, value: str) -> object:
        return (lambda: copied(self._viewer, value)) if name in _IDS else visible(value)

    def _headers(self, headers: Mapping[str, str]) -> None:
        t = self._viewer.t
        with tag("details", "pier-more"):
            tag("summary", "", t("Headers ({count})", count=len(headers)))
            pairs([(visible(name), visible(value)) for name, value in headers.items()])


def _plain(message: MessageView) -> dict[str, str]:
    return {
        "key": message.key,
        "routing_key": message.routing_key,
        "source": message.source,
        "content_type": message.content_type,
        "idempotency_key": message.idempotency_key,
        "original_id": message.original_id,
    }


def states(viewer: Viewer, status: str, is_untaken: bool, is_masked: bool) -> None:
    """Show the state of a message."""
    state_chip(viewer, status)
    if is_untaken:
        tag("span", "pier-quiet", viewer.t("no subscription takes it"))
    if is_masked:
        chip(viewer.t("parts are masked"), "warn", "visibility_off")


def lineage(viewer: Viewer, origin: EditView | None, replay: ReplayView | None, edits: Sequence[EditView]) -> None:
    """Show the message that this one was edited or replayed from, and those that were edited from it."""
    t = viewer.t
    if origin:
        with note(t("Made by editing another message"), _by(viewer, origin)), tag("p"):
            link(origin.id, f"/admin/messages/{origin.id}", "pier-mono")
    if replay:
        with note(t("Sent again by a replay"), replay.name), tag("p"):
            link(replay.of, f"/admin/messages/{replay.of}", "pier-mono")
    for made in edits:
        with note(t("A new message was made of this one by editing"), _by(viewer, made)), tag("p"):
            link(made.id, f"/admin/messages/{made.id}", "pier-mono")


def related_links(viewer: Viewer, trace: TraceView) -> None:
    """Show links to what happened at the same time."""
    t, time = viewer.t, id_time(trace.id)
    window = {
        "destination": trace.destination,
        "from": format_time(max(0, time - _AROUND)),
        "to": format_time(time + _AROUND),
    }
    with tag("nav", "pier-row-of pier-ways", aria_label=t("From here")):
        link(t("Messages within 5 minutes of it"), f"/admin/find?{query_of(window)}")
        if viewer.may("resend", trace.destination):
            failed = query_of({**window, "status": "dead"})
            link(t("Resend what failed within 5 minutes of it"), f"/admin/resends/new?{failed}")
        if viewer.may("configure"):
            link(t("Who did what with it"), f"/admin/audit?{query_of({'resource': 'messages/' + trace.id})}")


def _by(viewer: Viewer, made: EditView) -> str:
    if not made.by:
        return ""
    said = viewer.t("By {name}, {time}.", name=made.by, time=viewer.time(made.at))
    return f"{said} {visible(made.reason or '')}"


def _found(name: str, value: str) -> str:
    return f"/admin/find?{query_of({name: value})}"
