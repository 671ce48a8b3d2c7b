"""The form that sends one message to a subscriber, and shows the request and the response."""

from __future__ import annotations

import base64
import json
from typing import Final

from admin.models.responses.samples import SampleRequestView, SampleResponseView, SampleView
from admin.pages.api_error import ApiError
from admin.pages.parts.figures import size
from admin.pages.parts.forms import Form
from admin.pages.parts.states import chip
from admin.pages.parts.tags import tag
from admin.pages.parts.times import took
from admin.pages.viewer import Viewer

_FIRST: Final = '{\n  "sample": true\n}'


def sample(viewer: Viewer, code: str, name: str, *, why_not: str = "") -> None:
    """Show the part; ``why_not`` says why it is not possible now."""
    t = viewer.t
    with tag("section", "pier-card", id="sample", aria_label=t("Send a sample")):
        tag("h2", "", t("Send a sample"))
        tag(
            "p",
            "pier-quiet",
            t("One request, now, with the signature; it is in no trace and no figure, and is not retried."),
        )
        form = Form(viewer)
        form.lines("body", t("Body, JSON"), _FIRST)

        async def send() -> None:
            done = await viewer.api.post(
                f"/destinations/{code}/subscriptions/{name}/sample", {"body": _body(viewer, form)}
            )
            found = done.read(SampleView)
            result.clear()
            with result:
                _show(viewer, found)

        form.send(t("Send it"), send, disabled_because=why_not)
        result = tag("div", "q-mt-md", aria_live="polite")


def _body(viewer: Viewer, form: Form) -> object:
    try:
        return json.loads(str(form.value("body") or ""))
    except ValueError as error:
        raise ApiError(422, viewer.t("This is not JSON: {error}", error=error), field="body") from error


def _show(viewer: Viewer, found: SampleView) -> None:
    t, request, response = viewer.t, found.request, found.response
    with tag("p", "pier-row-of"):
        if response is None:
            chip(t("no answer"), "bad", "cancel")
        else:
            looks = ("good", "check_circle") if found.delivered else ("bad", "cancel")
            chip(t("answered {status}", status=response.status), *looks)
        tag("span", "", took(found.duration_ms))
        tag("span", "pier-quiet", " · ".join(f"{phase} {took(value)}" for phase, value in found.phases.items()))
    if found.error:
        tag("p", "pier-bad", found.error)
    tag("h3", "", t("Request"))
    _message(viewer, f"{request.method} {request.url}", request)
    if response is not None:
        tag("h3", "q-mt-sm", t("Response"))
        _message(viewer, f"{response.status}", response)


def _message(viewer: Viewer, first: str, part: SampleRequestView | SampleResponseView) -> None:
    lines = [first, *(f"{name}: {value}" for name, value in part.headers), "", _content(viewer, part)]
    tag("pre", "pier-block", "\n".join(lines), tabindex="0")


def _content(viewer: Viewer, part: SampleRequestView | SampleResponseView) -> str:
    shown = part.body if part.body is not None else base64.b64decode(part.body_base64).hex(" ")
    if part.truncated:
        return shown + "\n" + viewer.t("… the beginning of {size}", size=size(part.bytes))
    return shown
