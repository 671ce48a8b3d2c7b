"""Commands to copy that send a first message to a destination."""

from __future__ import annotations

from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer

_BODY = '{"order": 42}'


def first_message(viewer: Viewer, code: str, *, is_open: bool) -> None:
    """Show the command and the lines of a program; at once where ``is_open``."""
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Send to it")), tag("details", "pier-more", open=is_open or None):
        tag("summary", "", t("Send to it"))
        _lines(viewer, t("From a shell"), "pier-send-shell", _shell(viewer, code))
        _lines(viewer, t("From Python (pip install pier-bus)"), "pier-send-python", _python(viewer, code))


def _lines(viewer: Viewer, title: str, name: str, lines: str) -> None:
    t = viewer.t
    tag("h3", "", title)
    tag("pre", "pier-block", lines, id=name, tabindex="0", aria_label=title)
    said = t("Copy: {what}", what=title)
    tag(
        "button",
        "pier-button",
        t("Copy"),
        type="button",
        data_pier_copy=name,
        data_copied=t("Copied"),
        data_failed=t("Selected: copy it by hand"),
        aria_label=said,
    )


def _shell(viewer: Viewer, code: str) -> str:
    key = "" if viewer.is_open else " --header 'Authorization: Bearer KEY'"
    head = "--header 'Content-Type: application/json' --header 'Bus-Biz-Id: 42'"
    return f"curl --data '{_BODY}' {head}{key} \\\n  {viewer.base}/v1/messages/{code}"


def _python(viewer: Viewer, code: str) -> str:
    key = "" if viewer.is_open else ', api_key="KEY"'
    return (
        "from bus import Bus\n\n"
        f'with Bus("{viewer.base}"{key}, spool="./spool", source="my-service") as bus:\n'
        f'    print(bus.send("{code}", {_BODY}, biz_id="42"))'
    )
