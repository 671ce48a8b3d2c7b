"""The route of the changes of one destination or subscription, each with its author."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.responses.audit import HistoryView, WhoView
from admin.models.responses.base import Listing
from bus.domain.audit import Entry
from bus.domain.identity import id_time, parse_id
from bus.domain.times import format_time
from bus.errors import InvalidMessage
from bus.localized_text import localized
from bus.security.audit_log import AuditQuery

router = APIRouter(tags=["audit"])
_RESOURCE: Final = re.compile(r"destinations/([A-Za-z0-9_][A-Za-z0-9._-]{0,127})(/subscriptions/[A-Za-z0-9._-]{1,64})?")
_SAMPLE: Final = "/sample"
_FIRST_REFUSAL: Final = 400


@router.get("/history")
async def get_history(
    services: ServicesDep,
    principal: ReaderOfSome,
    resource: Annotated[
        str, Query(description="destinations/CODE, with all its subscriptions, or destinations/CODE/subscriptions/NAME")
    ],
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Listing[HistoryView]:
    """Return the changes of a destination or subscription with their authors, the newest first, to its readers.

    Secrets and the values of headers are left out, as are refused changes and samples. ``outcome`` is ``done``, or
    ``unknown`` when the process ended meanwhile. A page may hold fewer than ``limit``, or nothing, and still have a
    ``next``. A removed destination or subscription keeps its history for as long as the audit log is kept.
    """
    named = _RESOURCE.fullmatch(resource)
    if named is None:
        raise InvalidMessage(
            localized("resource: it is destinations/CODE or destinations/CODE/subscriptions/NAME"), field="resource"
        )
    principal.require("read", named[1])
    found = await services.audit.read(AuditQuery(what=resource), after=_place(cursor), limit=limit)
    return Listing(items=[_view(entry) for entry in found.entries if _is_change(entry)], next=found.next)


def _is_change(entry: Entry) -> bool:
    was_refused = entry.status is not None and entry.status >= _FIRST_REFUSAL
    return not was_refused and not entry.resource.endswith(_SAMPLE)


def _place(cursor: str | None) -> str | None:
    try:
        return parse_id(cursor) if cursor is not None else None
    except ValueError as error:
        raise InvalidMessage(localized("cursor: it is not one that a page gave"), field="cursor") from error


def _view(entry: Entry) -> HistoryView:
    return HistoryView(
        id=entry.id,
        at=format_time(id_time(entry.id)),
        who=WhoView(kind=entry.kind, name=entry.name),
        method=entry.method,
        resource=entry.resource,
        changes=entry.changes,
        outcome="unknown" if entry.status is None else "done",
    )
