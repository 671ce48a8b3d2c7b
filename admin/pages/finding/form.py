"""The search form: plain HTML, sent as a URL, so that a search can be bookmarked, shared and reopened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.pages.api_error import ApiError
from admin.pages.finding.filters import CONDITIONS, RANGES, Filters, local, title_of
from admin.pages.parts.states import LOOKS
from admin.pages.parts.tags import fill, link, tag
from admin.pages.viewer import Viewer

_ANSWERS: Final = ("2xx", "3xx", "4xx", "5xx", "none")
_MORE: Final = ("source", "biz_id", "error", "header", "body_path", "body_value", "text")
_PLACEHOLDERS: Final = {
    "error": "connection refused",
    "header": "x-tenant: north",
    "body_path": "order.lines[0].sku",
    "body_value": "A-17",
}


class Form:
    """The fields of one search; ``trouble`` is the error that the API returned for one of them."""

    def __init__(self, viewer: Viewer, filters: Filters, trouble: ApiError | None) -> None:
        self._viewer = viewer
        self._filters = filters
        self._trouble = trouble

    def show(self, destinations: Sequence[str], subscriptions: Sequence[str]) -> None:
        """Build it; the names of destinations and subscriptions are suggested."""
        t = self._viewer.t
        with tag("form", "pier-card pier-finder", action="/admin/find", method="get", novalidate=True, role="search"):
            with tag("div", "pier-finder-box"):
                self._text("ref", placeholder=t("Message, trace, biz id or key, as it is"), wide=True)
                tag("button", "pier-button pier-button-main", t("Search"), type="submit")
            self._hidden()
            self._range()
            with tag("div", "pier-conds"):
                self._text("destination", choices=destinations)
                self._text("subscription", choices=subscriptions)
                self._select("status", [(status, t(look.text)) for status, look in LOOKS.items()])
                self._select("status_class", [(name, t("no answer") if name == "none" else name) for name in _ANSWERS])
            self._more()

    def _hidden(self) -> None:
        """Add hidden fields for conditions that have no field, and for a range chosen by a button until another is."""
        for name in ("q", "signature"):
            if self._filters.get(name):
                tag("input", "", type="hidden", name=name, value=self._filters.get(name))
        if self._filters.last:
            tag("input", "", type="hidden", name="kept", value=self._filters.last)

    def _range(self) -> None:
        t, filters = self._viewer.t, self._filters
        own = bool(filters.get("from") or filters.get("to"))
        with tag("div", "pier-row-of pier-ranges", role="group", aria_label=t("Time")):
            for value, text in RANGES.items():
                pressed = filters.last == value
                self._chooser(t("Last {time}", time=text), value, pressed=pressed)
            if filters.last and filters.last not in RANGES:
                self._chooser(t("Last {time}", time=filters.last), filters.last, pressed=True)
            any_time = link(t("Any time"), filters.href(**{"last": "", "from": "", "to": ""}), "pier-button")
            if not filters.last and not own:
                any_time.props["aria-current"] = "true"
            for name in ("from", "to"):
                self._time(name)

    def _chooser(self, text: str, value: str, *, pressed: bool) -> None:
        tag(
            "button",
            "pier-button",
            text,
            type="submit",
            name="last",
            value=value,
            aria_pressed="true" if pressed else "false",
        )

    def _more(self) -> None:
        t = self._viewer.t
        is_open = any(self._filters.get(name) for name in _MORE) or self._is_wrong(*_MORE)
        with tag("details", "pier-more", open=True if is_open else None):
            tag("summary", "", t("More filters: source, error, header, value in the body, text"))
            with tag("div", "pier-conds"):
                for name in _MORE:
                    self._text(name, placeholder=_PLACEHOLDERS.get(name, ""))
            tag("p", "pier-quiet", t("What is looked for in bodies is read message by message: choose a time for it."))

    def _text(
        self, name: str, *, placeholder: str = "", wide: bool = False, choices: Sequence[str] | None = None
    ) -> None:
        with self._field(name, wide=wide):
            box = self._control("input", name, type="search" if wide else "text", placeholder=placeholder or None)
            fill(box, self._filters.get(name))
            if choices is not None:
                box.props["list"] = f"pier-{name}-choices"
                with tag("datalist", "", id=f"pier-{name}-choices"):
                    for choice in choices:
                        tag("option", "", value=choice)

    def _time(self, name: str) -> None:
        with self._field(name):
            box = self._control("input", name, type="datetime-local", step="1")
            fill(box, local(self._viewer, self._filters.get(name)))

    def _select(self, name: str, choices: Sequence[tuple[str, str]]) -> None:
        chosen = self._filters.get(name)
        with self._field(name), self._control("select", name):
            tag("option", "", self._viewer.t("any"), value="")
            for value, text in choices:
                tag("option", "", text, value=value, selected=True if value == chosen else None)
            if chosen and chosen not in dict(choices):
                tag("option", "", chosen, value=chosen, selected=True)

    def _field(self, name: str, *, wide: bool = False) -> ui.element:
        field = tag("div", f"pier-cond{' pier-cond-wide' if wide else ''}")
        with field:
            tag("label", "", title_of(self._viewer, name), for_=f"pier-by-{name}")
            if self._is_wrong(name) and self._trouble is not None:
                detail = self._viewer.say(self._trouble.detail)
                tag("span", "pier-bad pier-cond-wrong", detail, id=f"pier-wrong-{name}")
        return field

    def _control(self, kind: str, name: str, **attributes: object) -> ui.element:
        wrong = {"aria_invalid": "true", "aria_describedby": f"pier-wrong-{name}"} if self._is_wrong(name) else {}
        plain = {"autocomplete": "off", "spellcheck": "false"} if kind == "input" else {}
        return tag(kind, "pier-input", id=f"pier-by-{name}", name=name, **plain, **wrong, **attributes)

    def _is_wrong(self, *names: str) -> bool:
        return self._trouble is not None and self._trouble.field in names


def active(viewer: Viewer, filters: Filters) -> None:
    """Show the conditions as chips, each with a link that removes it."""
    t = viewer.t
    shown = {name: filters.get(name) for name in (*CONDITIONS, "from", "to")}
    said = {name: _said(viewer, name, value) for name, value in shown.items() if value}
    if filters.last:
        said["last"] = t("the last {time}", time=RANGES.get(filters.last, filters.last))
    if not said:
        return
    with tag("div", "pier-row-of pier-active", role="group", aria_label=t("Active filters")):
        for name, text in said.items():
            title = title_of(viewer, name)
            label = t("Take away: {filter}", filter=f"{title}: {text}")
            with link("", filters.href(**{name: ""}), "pier-chip pier-taken", aria_label=label, title=label):
                tag("span", "pier-quiet", f"{title}:")
                tag("span", "pier-bidi pier-cut", text)
                ui.icon("close", size="14px").props["aria-hidden"] = "true"
        link(t("Clear"), "/admin/find")


def _said(viewer: Viewer, name: str, value: str) -> str:
    if name in ("from", "to"):
        return local(viewer, value).replace("T", " ")
    if name == "status":
        return next((viewer.t(look.text) for status, look in LOOKS.items() if status == value), value)
    return viewer.t("no answer") if (name, value) == ("status_class", "none") else value
