"""The page of one message: its whole life."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec
from nicegui import ui

from admin.models.responses.messages import TraceView
from admin.pages.api_error import ApiError
from admin.pages.finding.filters import query_of
from admin.pages.frame import heading, page
from admin.pages.parts.copying import copied
from admin.pages.parts.following import patient
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import empty
from admin.pages.parts.tags import tag
from admin.pages.tracing.attempt import show_attempt
from admin.pages.tracing.body import BodyPart
from admin.pages.tracing.deliveries import Delivery
from admin.pages.tracing.facts import Facts, lineage, related_links, states
from admin.pages.tracing.picture import Picture
from admin.pages.tracing.repair import Repair
from admin.pages.tracing.timeline import timeline
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import FINAL
from bus.localized_text import N_

_EVERY: Final = 2.0
_MISSING: Final = 404


@page("/messages/{id}", N_("Message"))
async def trace(viewer: Viewer) -> None:
    """Show it."""
    message_id = viewer.place["id"]
    path = f"/messages/{quote(message_id, safe='')}"
    try:
        found = await viewer.api.get(path, TraceView)
    except ApiError as error:
        if error.status != _MISSING:
            raise
        _missing(viewer, message_id)
        return
    _Page(viewer, path, found).show()


def _missing(viewer: Viewer, message_id: str) -> None:
    t = viewer.t
    heading(t("Message"))
    said = t(
        "It may be past its retention, or of a destination that you may not see. “{id}” may be an id of another kind.",
        id=visible(message_id[:64]),
    )
    anywhere = (t("Look for it among all ids"), f"/admin/find?{query_of({'ref': message_id[:200]})}")
    empty(t("There is no message with this id"), said, action=anywhere)


class _Page:
    """One message, live while something about it is unfinished."""

    def __init__(self, viewer: Viewer, path: str, found: TraceView) -> None:
        self._viewer = viewer
        self._path = path
        self._found = found
        self._polled: TraceView | None = None
        self._deliveries: dict[str, Delivery] = {}
        self._is_stirred = False

    def show(self) -> None:
        """Build the page."""
        viewer, t, found = self._viewer, self._viewer.t, self._found
        with heading(t("Message")) as head:
            copied(viewer, found.id, "pier-id pier-mono")
        said = tag("div", "", aria_live="polite")
        with head:
            self._states = LivePart(lambda seen: states(viewer, *seen))
            tag("span", "pier-spacer")
            self._live = ui.switch(t("Live"), value=True)
            Repair(viewer, said, self._stir).show(found)
        related_links(viewer, found)
        self._lineage = LivePart(lambda seen: lineage(viewer, *seen))
        with tag("div", "pier-life"):
            with tag("div"):
                self._facts = LivePart(Facts(viewer).show)
                BodyPart(viewer, found)
            with tag("div"):
                self._picture = Picture(viewer, self._open)
                self._timeline = LivePart(lambda hops: timeline(viewer, hops))
        tag("h2", "pier-section", t("Deliveries"))
        self._holder = tag("div")
        self._update()
        ui.timer(_EVERY, patient(viewer, self._poll))

    async def _poll(self) -> None:
        """Read the trace with its last attempts only; the whole of it when something has changed."""
        if not self._is_stirred and (not self._live.value or self._is_finished()):
            return
        polled = await self._viewer.api.get(self._path, TraceView, {"attempts": "last:1"})
        if polled == self._polled:
            return
        self._polled, self._is_stirred = polled, False
        self._found = await self._viewer.api.get(self._path, TraceView)
        self._update()

    def _stir(self) -> None:
        """Have the next poll look for changes by an action, even though all deliveries were finished."""
        self._is_stirred = True

    def _is_finished(self) -> bool:
        """Whether nothing more happens by itself."""
        return all(one.status in FINAL for one in self._found.deliveries)

    def _update(self) -> None:
        found = self._found
        self._states.update((found.status, bool(found.reason), found.masked))
        self._lineage.update((found.edited_from, found.replay, found.edits))
        self._facts.update(msgspec.structs.replace(found, deliveries=[], hops=[]))
        self._picture.update(found)
        self._timeline.update(found.hops)
        for one in found.deliveries:
            name = one.subscription
            if name not in self._deliveries:
                with self._holder:
                    self._deliveries[name] = Delivery(self._viewer, found, name, self._open)
            self._deliveries[name].update(one)
        self._live.set_visibility(not self._is_finished())

    async def _open(self, subscription: str, attempt_id: str) -> None:
        await show_attempt(self._viewer, self._found.id, subscription, attempt_id)
