"""Messages that were ticked, resent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.models.responses.messages import ResentView, TraceView
from admin.models.responses.resends import JobView
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.notes import note
from admin.pages.parts.reasons import asked_reason
from admin.pages.parts.reordering import sent_again
from admin.pages.parts.tables import Row
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.domain.tracing.signature import FAILING

_FAILED, _ALL = "failed", "all"
_MOST: Final = 1_000
Jobs = dict[str, str]


class TickedResend:
    """Asks how ticked messages are to be resent, does it, and shows below ``said`` what becomes of them."""

    def __init__(self, viewer: Viewer, said: ui.element) -> None:
        self._viewer = viewer
        self._said = said

    async def ask(self, rows: Sequence[Row]) -> None:
        """Open the dialog."""
        t = self._viewer.t
        ids = [str(row["key"]) for row in rows]
        with dialog(t("Resend {count} messages", count=len(ids))) as asking:
            choices = {_FAILED: t("to the subscribers that did not get them"), _ALL: t("to all of their subscribers")}
            to_whom = ui.radio(choices, value=_FAILED)
            to_whom.props["aria-label"] = t("To whom")
            why = asked_reason(self._viewer)

            async def act() -> bool:
                reason = (why.value or "").strip()
                jobs = await (self._resend_failed if to_whom.value == _FAILED else self._resend_all)(ids, reason)
                self._tell(jobs)
                return True

            answers(self._viewer, asking, t("Resend"), act)

    async def _resend_failed(self, ids: Sequence[str], reason: str) -> Jobs:
        """Have a job for each destination resend the deliveries that fail; return the jobs, by what they are of."""
        failing: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        for id_ in ids:
            trace = await self._viewer.api.get(f"/messages/{id_}", TraceView, {"attempts": "none"})
            for one in trace.deliveries:
                if one.status in FAILING:
                    failing[trace.destination].append({"id": id_, "subscription": one.subscription})
        jobs: Jobs = {}
        for destination, deliveries in failing.items():
            body = {"destination": destination, "deliveries": deliveries[:_MOST], "reason": reason}
            made = await sent_again(self._viewer, "/resends/deliveries", body)
            if made is not None:
                jobs[destination] = made.read(JobView).id
        return jobs

    async def _resend_all(self, ids: Sequence[str], reason: str) -> Jobs:
        """Resend each message; return the jobs, by the message."""
        jobs: Jobs = {}
        for id_ in ids:
            made = await sent_again(self._viewer, f"/messages/{id_}/resend", {"reason": reason})
            if made is not None:
                jobs[id_] = made.read(ResentView).id
        return jobs

    def _tell(self, jobs: Jobs) -> None:
        t = self._viewer.t
        self._said.clear()
        with self._said:
            if not jobs:
                note(
                    t("Nothing was resent"),
                    t("None of them failed, or it was not wanted."),
                    tone="warn",
                )
                return
            with note(t("They are resent"), tone="good"), tag("ul"):
                for name, job in jobs.items():
                    with tag("li"):
                        link(t("What becomes of {name}", name=name), f"/admin/resends/{job}", "pier-bidi")
