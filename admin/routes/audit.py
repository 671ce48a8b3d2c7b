"""Routes of the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin.deps import Configurer, ServicesDep
from admin.models.base import Time
from admin.models.responses.audit import AuditView, WhoFromView
from admin.models.responses.base import Listing
from bus.domain.audit import Entry
from bus.domain.identity import id_time, parse_id
from bus.domain.times import format_time, parse_time
from bus.errors import InvalidMessage
from bus.localized_text import localized
from bus.security.audit_log import AuditQuery

router = APIRouter(prefix="/audit", tags=["audit"])


@router.get("")
async def read_audit(
    services: ServicesDep,
    _: Configurer,
    since: Annotated[Time | None, Query(alias="from")] = None,
    before: Annotated[Time | None, Query(alias="to")] = None,
    who: Annotated[str | None, Query(description="a key's id or name, a user's name, or key, user, open")] = None,
    what: Annotated[str | None, Query(description="a path below /api/v1; those below it belong to it")] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Listing[AuditView]:
    """Return one page of changes and of reads of message bodies, the newest first.

    A page may hold fewer than ``limit`` and still have a ``next``: it reads a bounded number of entries.
    """
    wanted = AuditQuery(parse_time(since) if since else None, parse_time(before) if before else None, who, what)
    found = await services.audit.read(wanted, after=_place(cursor), limit=limit)
    return Listing(items=[_view(entry) for entry in found.entries], next=found.next)


def _place(cursor: str | None) -> str | None:
    try:
        return parse_id(cursor) if cursor is not None else None
    except ValueError as error:
        raise InvalidMessage(localized("the cursor is not one that a page gave"), field="cursor") from error


def _view(entry: Entry) -> AuditView:
    return AuditView(
        id=entry.id,
        at=format_time(id_time(entry.id)),
        who=WhoFromView(kind=entry.kind, id=entry.by, name=entry.name, address=entry.address),
        method=entry.method,
        resource=entry.resource,
        changes=entry.changes,
        status=entry.status,
        outcome=_outcome(entry.status),
    )


def _outcome(status: int | None) -> str:
    if status is None:
        return "unknown"
    if status >= 500:  # noqa: PLR2004 - HTTP's own border
        return "failed"
    return "refused" if status >= 400 else "done"  # noqa: PLR2004 - HTTP's own border
