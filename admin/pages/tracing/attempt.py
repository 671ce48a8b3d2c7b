"""One attempt: the request as it was sent, and the response."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from admin.models.responses.messages import AttemptView, RequestView, ResponseView, SentAttemptView
from admin.pages.api_error import ApiError
from admin.pages.parts.asking import close_button, dialog
from admin.pages.parts.figures import pairs, size
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import note, refusal
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment, took
from admin.pages.tracing.waterfall import PHASES
from admin.pages.viewer import Viewer

_FAILED: Final = 400


async def show_attempt(viewer: Viewer, message_id: str, subscription: str, attempt_id: str) -> None:
    """Open an attempt in a dialog; it is read only now, so that a message with many attempts loads quickly."""
    path = f"/messages/{message_id}/deliveries/{quote(subscription, safe='')}/attempts/{quote(attempt_id, safe='')}"
    found: SentAttemptView | ApiError
    try:
        found = await viewer.api.get(path, SentAttemptView)
    except ApiError as refused:
        found = refused
    number = "" if isinstance(found, ApiError) else found.attempt.n
    with dialog(viewer.t("Attempt {n} of {name}", n=number, name=subscription), wide=True) as shown:
        if isinstance(found, ApiError):
            refusal(viewer, found)
        else:
            _Attempt(viewer, found).show()
        close_button(viewer, shown)


class _Attempt:
    def __init__(self, viewer: Viewer, found: SentAttemptView) -> None:
        self._viewer = viewer
        self._attempt: AttemptView = found.attempt
        self._request: RequestView | None = found.request
        self._masked = found.masked
        self._response: ResponseView = found.response

    def show(self) -> None:
        self._summary()
        self._show_request()
        self._show_response()

    def _summary(self) -> None:
        t, attempt = self._viewer.t, self._attempt
        where = [(t(title), took(attempt.phases[name])) for name, title in PHASES.items() if name in attempt.phases]
        pairs(
            [
                (t("Began"), lambda: moment(self._viewer, attempt.started_at)),
                (t("Took"), took(attempt.duration_ms)),
                *where,
                (t("Node"), attempt.node),
            ]
        )

    def _show_request(self) -> None:
        t, request = self._viewer.t, self._request
        tag("h3", "", t("Request"))
        if request is None:
            note(t("The message itself is not in the store"), t("So its request cannot be shown."), tone="warn")
            return
        self._changes(request)
        lines = [f"{request.method} {request.url}"]
        lines += [f"{header.name}: {header.value}" for header in request.headers]
        tag("pre", "pier-block", visible("\n".join(lines)), tabindex="0", aria_label=t("Request"))
        with tag("p", "pier-row-of"):
            body = t("the body, {size}", size=size(request.body_bytes))
            link(t("Download {what}", what=body), request.body, download="", title=_audited(self._viewer))
        batch = self._attempt.batch
        if batch is None:
            self._curl(request.curl)
        else:
            said = t("{count} messages went in this request; the body is that of this one.", count=batch.size)
            note(t("It was a batch"), said)

    def _changes(self, request: RequestView) -> None:
        t = self._viewer.t
        if request.removed:
            note(t("The subscription is removed"), t("Headers of its own are not known any more."), tone="warn")
        elif request.changed_at:
            time = self._viewer.time(request.changed_at)
            said = t("It was changed at {time}: this attempt may have been sent otherwise.", time=time)
            note(t("The subscription has changed since"), said, tone="warn")
        elif request.changes_known is False:
            note(t("The subscription may have changed since"), t("The audit log is too long to be sure."), tone="warn")

    def _curl(self, command: str) -> None:
        t = self._viewer.t
        with tag("details", "pier-more"):
            tag("summary", "", t("As curl"))
            tag(
                "p",
                "pier-quiet",
                t("Save the body in a file of the message's id first; a signature is to be filled in."),
            )
            tag("pre", "pier-block", command, id="pier-curl", tabindex="0", aria_label=t("As curl"))
        copied = t("Copied")
        tag("button", "pier-button", t("Copy as curl"), type="button", data_pier_copy="pier-curl", data_copied=copied)

    def _show_response(self) -> None:
        t, response = self._viewer.t, self._response
        tag("h3", "", t("Response"))
        if response.status_code is not None:
            tag("p", "pier-mono", f"HTTP {response.status_code}")
        if response.error:
            tag("p", "pier-bad pier-bidi", visible(response.error))
        if response.body:
            tag("pre", "pier-block", visible(response.body), tabindex="0", aria_label=t("Response"))
            if response.may_be_cut:
                tag(
                    "p",
                    "pier-warn",
                    t("Only the first {size} of an answer are kept.", size=size(response.body_bytes)),
                )
        elif response.status_code is not None:
            if response.status_code < _FAILED:
                said = t("The body of an answer is kept of failures only.")
            else:
                said = t("The answer's body is masked.") if self._masked else t("The answer had no body.")
            tag("p", "pier-quiet", said)


def _audited(viewer: Viewer) -> str:
    return viewer.t("Reading a body is noted in the audit log.")
