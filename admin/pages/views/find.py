"""The page that finds messages: by an id of any kind, or by the filters in its URL."""

from __future__ import annotations

from typing import Final

from fastapi.responses import RedirectResponse, Response

from admin.models.responses.base import Listing
from admin.models.responses.configuration import DestinationView, SubscriptionView
from admin.models.responses.messages import MessagesView
from admin.pages.api_error import ApiError
from admin.pages.finding.filters import Filters, is_plain, query_of, read
from admin.pages.finding.form import Form, active
from admin.pages.finding.results import Results, failed
from admin.pages.finding.saved import saved_views
from admin.pages.frame import heading, page
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_ON_A_PAGE: Final = 50
_SEE_OTHER: Final = 303
_WRONG: Final = (400, 422)


@page("/find", N_("Find"))
async def find(viewer: Viewer) -> Response | None:
    """Show the results of a search, or redirect to the only message that a search by id found."""
    filters = read(viewer)
    if not is_plain(viewer, filters):
        shorter = filters.href() if not filters.cursor else _with_cursor(filters)
        return RedirectResponse(shorter, _SEE_OTHER)
    found, trouble = await _search(viewer, filters)
    only = _only(filters, found)
    if only:
        return RedirectResponse(f"/admin/messages/{only}", _SEE_OTHER)
    await _show(viewer, filters, found, trouble)
    return None


async def _show(viewer: Viewer, filters: Filters, found: MessagesView | None, trouble: ApiError | None) -> None:
    with heading(viewer.t("Find")):
        tag("span", "pier-spacer")
        if found is not None:
            _actions(viewer, filters, has_any=bool(found.items))
    await saved_views(viewer, filters)
    destinations = [one.code for one in (await viewer.api.get("/destinations", Listing[DestinationView])).items]
    wrong = trouble if trouble is not None and trouble.status in _WRONG else None
    Form(viewer, filters, wrong).show(destinations, await _subscriptions(viewer, filters, destinations))
    active(viewer, filters)
    if trouble is not None:
        await failed(viewer, trouble)
    elif found is not None:
        Results(viewer, filters, found, destinations).show()


async def _search(viewer: Viewer, filters: Filters) -> tuple[MessagesView | None, ApiError | None]:
    try:
        asked = filters.asked()
    except ValueError as error:
        return None, ApiError(422, f"last: {error}", field="last")
    try:
        return await viewer.api.get(
            "/messages", MessagesView, {**asked, "cursor": filters.cursor, "limit": _ON_A_PAGE}
        ), None
    except ApiError as error:
        return None, error


async def _subscriptions(viewer: Viewer, filters: Filters, destinations: list[str]) -> list[str]:
    """Return the subscriptions of the destination that is chosen, for the field to offer."""
    code = filters.get("destination")
    if code not in destinations:
        return []
    found = await viewer.api.get(f"/destinations/{code}/subscriptions", Listing[SubscriptionView])
    return [one.name for one in found.items]


def _only(filters: Filters, found: MessagesView | None) -> str:
    """Return the id of the only message that a search by id alone found; empty when there is none, or several."""
    if found is None or filters.cursor or set(filters.query()) != {"ref"}:
        return ""
    items = found.items
    return items[0].id if len(items) == 1 and not found.next else ""


def _actions(viewer: Viewer, filters: Filters, *, has_any: bool) -> None:
    """Show the actions for all messages of the search, not only for this page: export and resend."""
    if not has_any:
        return
    t, asked = viewer.t, filters.asked()
    for form, name in (("csv", "CSV"), ("ndjson", "NDJSON")):
        href = f"/api/v1/messages/export?{query_of({'format': form, **asked})}"
        said = t("Export all that meet these filters, as {format}", format=name)
        link(t("Export {format}", format=name), href, "pier-button", download="", title=said)
    if viewer.may(Action.RESEND, filters.get("destination") or None):
        link(t("Resend these…"), f"/admin/resends/new?{query_of(asked)}", "pier-button")
        if filters.get("destination") and filters.get("subscription"):
            link(t("Discard these…"), f"/admin/resends/discard?{query_of(asked)}", "pier-button")
    else:
        why = t("You may not resend here: ask an admin for the role operator.")
        tag("button", "pier-button", t("Resend these…"), type="button", disabled=True, title=why)


def _with_cursor(filters: Filters) -> str:
    return f"/admin/find?{query_of({**filters.query(), 'cursor': filters.cursor})}"
