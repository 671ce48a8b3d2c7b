"""The page of the audit log: changes, reads of bodies, their authors and outcomes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from admin.models.responses.audit import AuditView
from admin.models.responses.base import Listing
from admin.pages.api_error import ApiError
from admin.pages.frame import heading, page
from admin.pages.parts.audit_actions import deed_of
from admin.pages.parts.changes import changes
from admin.pages.parts.notes import empty
from admin.pages.parts.tables import Cell, Column, Row, badge, moment, place, table, text
from admin.pages.parts.tags import fill, link, tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_PAGE: Final = 50
_OUTCOMES: Final = {
    "done": ("good", N_("done")),
    "refused": ("warn", N_("refused")),
    "failed": ("bad", N_("failed")),
    "unknown": ("wait", N_("not known")),
}
_RESOURCES: Final = ("destinations", "messages", "resends", "users", "keys", "session", "rates", "clusters")


@page("/audit", N_("Audit log"))
async def audit(viewer: Viewer) -> None:
    """Show one page of the log that the URL selects, the newest first."""
    t, asked = viewer.t, viewer.query
    heading(t("Audit log"))
    if viewer.may(Action.CONFIGURE):
        _filters(viewer)
    query = {
        "who": asked.get("who", ""),
        "what": asked.get("resource", ""),
        "from": _time(viewer, "from"),
        "to": _time(viewer, "to"),
    }
    found = await viewer.api.get("/audit", Listing[AuditView], {**query, "cursor": asked.get("cursor"), "limit": _PAGE})
    if found.items:
        _table(viewer, found.items)
    elif found.next is None:
        _nothing(viewer, is_filtered=any(query.values()) or "cursor" in asked)
    _ways(viewer, found)


def _filters(viewer: Viewer) -> None:
    t, asked = viewer.t, viewer.query
    with tag("form", "pier-filters", action="/admin/audit", method="get", role="search", aria_label=t("Filter")):
        _box("who", t("Who"), asked.get("who", ""), t("name, or id of a key"))
        _box("resource", t("Resource"), asked.get("resource", ""), "destinations/orders", list="pier-resources")
        with tag("datalist", id="pier-resources"):
            for resource in _RESOURCES:
                tag("option", value=resource)
        for name, label in (("from", t("From")), ("to", t("To"))):
            _box(name, label, _local(viewer, asked.get(name, "")), "", type="datetime-local", step="1")
        tag("button", "pier-deed", t("Show"), type="submit")
        if any(asked.get(name) for name in ("who", "resource", "from", "to")):
            link(t("Show all"), "/admin/audit")


def _box(name: str, label: str, value: str, placeholder: str, **attributes: str) -> None:
    with tag("div"):
        tag("label", "", label, for_=f"pier-audit-{name}")
        shown = {"placeholder": placeholder or None, "autocomplete": "off", "spellcheck": "false"}
        fill(tag("input", "", id=f"pier-audit-{name}", name=name, **shown, **attributes), value)


def _parsed(viewer: Viewer, written: str) -> datetime:
    """Return a time of the URL; one without a zone, as the form's fields write it, is in the viewer's."""
    found = datetime.fromisoformat(written)
    return found if found.tzinfo is not None else found.replace(tzinfo=viewer.zone)


def _time(viewer: Viewer, name: str) -> str:
    written = viewer.query.get(name, "")
    try:
        return _parsed(viewer, written).astimezone(UTC).isoformat() if written else ""
    except (ValueError, OverflowError) as error:
        said = viewer.t("{text} is not a time such as 2026-01-31T12:00", text=written[:60])
        raise ApiError(422, said, field=name) from error


def _local(viewer: Viewer, written: str) -> str:
    try:
        return _parsed(viewer, written).astimezone(viewer.zone).strftime("%Y-%m-%dT%H:%M:%S") if written else ""
    except (ValueError, OverflowError):
        return ""


def _table(viewer: Viewer, items: list[AuditView]) -> None:
    t = viewer.t
    columns = [
        Column("at", t("When")),
        Column("who", t("Who")),
        Column("outcome", t("Outcome")),
        Column("did", t("Did")),
        Column("resource", t("Resource")),
        Column("changes", t("Before → after"), shows="changes"),
        Column("address", t("From address")),
    ]
    table(columns, [_row(viewer, item) for item in items], label=t("Audit log"))


def _row(viewer: Viewer, item: AuditView) -> Row:
    who = item.who
    by = who.name if who.kind == "user" else who.id
    return {
        "key": item.id,
        "at": moment(viewer, item.at),
        "who": place(who.name, f"/admin/audit?{urlencode({'who': by})}", title=who.id),
        "did": text(viewer.t(deed_of(item.method, item.resource)), title=item.method),
        "resource": _resource(item.resource),
        "changes": changes(viewer, item.changes),
        "outcome": _outcome(viewer, item),
        "address": text(who.address, mono=True),
    }


def _resource(resource: str) -> Cell:
    kind, *rest = resource.split("/")
    first = rest[0] if rest else ""
    places = {
        "messages": f"/admin/messages/{first}",
        "destinations": f"/admin/destinations/{first}",
        "resends": f"/admin/resends/{first}",
        "users": f"/admin/access/users/{first}",
        "keys": f"/admin/access/keys/{first}",
    }
    if kind == "destinations" and rest[1:2] == ["subscriptions"] and len(rest) > 2:  # noqa: PLR2004 - its name
        return place(resource, f"/admin/destinations/{first}/subscriptions/{rest[2]}", mono=True)
    if first and kind in places:
        return place(resource, places[kind], mono=True)
    return text(resource, mono=True)


def _outcome(viewer: Viewer, item: AuditView) -> Cell:
    tone, word = _OUTCOMES[item.outcome]
    status = item.status
    cell = badge(viewer.t(word) + (f" · {status}" if status is not None else ""), tone)
    if status is None:
        cell["title"] = viewer.t("It was let in, and how it ended was not noted: look whether the change was made.")
    return cell


def _nothing(viewer: Viewer, *, is_filtered: bool) -> None:
    t = viewer.t
    if is_filtered:
        empty(
            t("No entry is like that"),
            t("The whole log was looked at. A resource is a path, such as destinations/orders, with all below it."),
            action=(t("Show all"), "/admin/audit"),
        )
        return
    empty(
        t("Nothing was changed yet"),
        t("Changes through these pages, the API and the bus command appear here, and reads of message bodies."),
    )


def _ways(viewer: Viewer, found: Listing[AuditView]) -> None:
    t = viewer.t
    kept = {name: viewer.query[name] for name in ("who", "resource") if viewer.query.get(name)}
    kept |= {name: _time(viewer, name) for name in ("from", "to") if viewer.query.get(name)}
    if found.next is not None and len(found.items) < _PAGE:
        tag("p", "pier-quiet", t("A page looks at some 4,000 entries at most, and there are more: go on."))
    with tag("nav", "pier-row-of", aria_label=t("Pages of the log")):
        if "cursor" in viewer.query:
            link(t("Newest"), f"/admin/audit?{urlencode(kept)}")
        if found.next is not None:
            link(t("Older"), f"/admin/audit?{urlencode({**kept, 'cursor': found.next})}", rel="next")
