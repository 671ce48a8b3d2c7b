"""The work of dispatchers for a subscription: slots in use, and recent attempts."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.activity import ActivityView, RecentAttemptView
from admin.pages.api_error import ApiError
from admin.pages.parts.answers import answer
from admin.pages.parts.figures import count, rate
from admin.pages.parts.following import EVERY, patient
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.sections import Section
from admin.pages.parts.tables import Column, Row, moment, place, state, text
from admin.pages.parts.times import took, waited
from admin.pages.viewer import Viewer

_SHOWN: Final = 10


class ActivityPart:
    """The section of a subscription's page; it follows the bus, and its rows keep their places."""

    def __init__(self, viewer: Viewer, code: str, name: str) -> None:
        t = viewer.t
        self._viewer = viewer
        self._path = f"/destinations/{code}/subscriptions/{name}/activity"
        columns = [
            Column("began", t("Began")),
            Column("answer", t("Answer")),
            Column("took", t("Took"), is_number=True),
            Column("n", t("Attempt"), is_number=True),
            Column("status", t("Since then")),
            Column("message", t("Message")),
            Column("error", t("Error")),
        ]
        self._section = Section(viewer, t("Latest attempts"), columns, narrow=True)

    async def follow(self) -> None:
        """Show the current activity, and update it from then on."""
        await self._look()
        ui.timer(EVERY, patient(self._viewer, self._look), immediate=False)

    async def _look(self) -> None:
        t = self._viewer.t
        try:
            found = await self._viewer.api.get(self._path, ActivityView, {"limit": _SHOWN})
        except ApiError as refused:
            self._section.refuse(refused)
            return
        said = self._said(found)
        nothing = (t("No attempt since its dispatcher was started"), said)
        self._section.show([self._row(one) for one in found.attempts], said=said, nothing=nothing)

    def _said(self, found: ActivityView) -> str:
        t = self._viewer.t
        parts = [
            t("{count} of {permits} requests in flight", count=count(found.in_flight), permits=count(found.permits)),
            t("{count} deliveries in memory", count=count(found.held)),
        ]
        if found.rate is not None:
            parts.append(t("at most {rate} a second", rate=rate(found.rate)))
        if found.rate_wait_seconds:
            parts.append(t("held by that for {time} yet", time=waited(found.rate_wait_seconds)))
        if found.silent:
            parts.append(t("{count} dispatchers did not answer", count=count(found.silent)))
        return " · ".join(parts)

    def _row(self, one: RecentAttemptView) -> Row:
        viewer = self._viewer
        return {
            "key": f"{one.message_id}/{one.n}/{one.started_at}",
            "began": moment(viewer, one.started_at, exact=True),
            "answer": answer(viewer, one.status_code, one.error),
            "took": text(took(one.duration_ms)),
            "n": text(count(one.n)),
            "status": state(viewer, one.status),
            "message": place(one.message_id, f"/admin/messages/{one.message_id}", title=one.message_id, mono=True),
            "error": text(visible(one.error or ""), cut=True),
        }
