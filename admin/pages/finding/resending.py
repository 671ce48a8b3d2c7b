"""Messages that were ticked, resent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Final, TypeVar

from nicegui import ui

from admin.models.responses.messages import ResentView, TraceView
from admin.models.responses.resends import JobView
from admin.pages.api_error import ApiError
from admin.pages.calls import ChangeResponse
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
_NOBODY: Final = 401
_FAILURE: Final = 500
Answer = TypeVar("Answer")


class MessageResender:
    """Resends messages, one request after the other; a refused one does not stop the others.

    Attributes
    ----------
    jobs
        The jobs that were created, each with its subject.
    refused
        The errors of those that were refused. Once the API fails, the rest are not tried.
    """

    def __init__(self, viewer: Viewer, reason: str) -> None:
        self._viewer = viewer
        self._reason = reason
        self._failure: ApiError | None = None
        self.jobs: list[tuple[str, str]] = []
        self.refused: list[tuple[str, ApiError]] = []

    async def failed(self, ids: Sequence[str]) -> None:
        """Have jobs for each destination resend the deliveries that fail."""
        failing: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        for id_ in ids:
            trace = await self._tried(id_, self._trace(id_))
            if trace is not None:
                names = [one.subscription for one in trace.deliveries if one.status in FAILING]
                failing[trace.destination] += [{"id": id_, "subscription": name} for name in names]
        for destination, deliveries in failing.items():
            for start in range(0, len(deliveries), _MOST):
                body = {"destination": destination, "deliveries": deliveries[start : start + _MOST]}
                made = await self._resent(destination, "/resends/deliveries", body)
                if made is not None:
                    self.jobs.append((destination, made.read(JobView).id))

    async def all(self, ids: Sequence[str]) -> None:
        """Resend each message to all of its subscribers."""
        for id_ in ids:
            made = await self._resent(id_, f"/messages/{id_}/resend", {})
            if made is not None:
                self.jobs.append((id_, made.read(ResentView).id))

    async def _trace(self, id_: str) -> TraceView:
        return await self._viewer.api.get(f"/messages/{id_}", TraceView, {"attempts": "none"})

    async def _resent(self, name: str, path: str, body: Mapping[str, object]) -> ChangeResponse | None:
        return await self._tried(name, sent_again(self._viewer, path, {**body, "reason": self._reason}))

    async def _tried(self, name: str, asking: Coroutine[object, object, Answer]) -> Answer | None:
        """Return the answer; None where the API refuses, or the user cancels."""
        if self._failure is not None:
            asking.close()
            self.refused.append((name, self._failure))
            return None
        try:
            return await asking
        except ApiError as refused:
            if refused.status == _NOBODY:
                raise
            if refused.status >= _FAILURE:
                self._failure = refused
            self.refused.append((name, refused))
            return None


class TickedResend:
    """Asks how to resend ticked messages, resends them, and shows the results below ``said``."""

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
                resending = MessageResender(self._viewer, (why.value or "").strip())
                await (resending.failed if to_whom.value == _FAILED else resending.all)(ids)
                self._tell(resending)
                return True

            answers(self._viewer, asking, t("Resend"), act)

    def _tell(self, resending: MessageResender) -> None:
        t = self._viewer.t
        self._said.clear()
        with self._said:
            if resending.jobs:
                with note(t("They are resent"), tone="good"), tag("ul"):
                    for name, job in resending.jobs:
                        with tag("li"):
                            link(t("What becomes of {name}", name=name), f"/admin/resends/{job}", "pier-bidi")
            if resending.refused:
                with note(t("These were not resent"), tone="bad"), tag("ul"):
                    for name, refused in resending.refused:
                        tag("li", "pier-bidi", f"{name}: {self._viewer.say(refused.detail)}")
            elif not resending.jobs:
                note(t("Nothing was resent"), t("None of them failed, or it was not wanted."), tone="warn")
