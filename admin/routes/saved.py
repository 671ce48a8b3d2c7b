"""Routes of saved views: a page and its query that a user has stored under a name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator, Field, StrictBool

from admin.access.saved_views import VersionedView, is_own
from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import Body, Whole
from admin.models.responses.access import OwnerView, SavedView
from admin.models.responses.base import Listing
from admin.requests.audited import AuditedRoute
from bus.domain.times import format_time
from bus.errors import InvalidMessage
from bus.localized_text import localized
from bus.security.principals import Principal

router = APIRouter(prefix="/views", tags=["views"], route_class=AuditedRoute)


def _printable(value: str) -> str:
    if not value.isprintable() or value != value.strip() or value in (".", ".."):
        raise ValueError(localized("it has characters that cannot be shown, or spaces at an end"))
    return value


Name = Annotated[str, Path(min_length=1, max_length=80), AfterValidator(_printable)]
Owner = Annotated[
    str | None, Query(max_length=140, description="whose it is: user:NAME or key:ID; left out: one's own goes first")
]


class ViewBody(Body):
    """A view as a request body: a page and the query string of its URL.

    ``version`` is the one that must be stored now (0: none yet); null replaces any.
    """

    name: str | None = None
    page: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")
    query: Annotated[str, Field(max_length=2000), AfterValidator(_printable)] = ""
    shared: StrictBool = False
    version: Whole | None = Field(default=None, ge=0)


@router.get("")
async def list_views(services: ServicesDep, principal: ReaderOfSome) -> Listing[SavedView]:
    """Return the caller's own views by name, then those that others share.

    A shared view is shown to who may read every destination that its query names, or all if it names none.
    """
    found = await services.saved.visible(principal)
    return Listing(items=[_view(one, principal) for one in found])


@router.get("/{name}")
async def get_view(name: Name, services: ServicesDep, principal: ReaderOfSome, owner: Owner = None) -> SavedView:
    """Return the caller's view of a name, else a shared one."""
    return _view(await services.saved.find(principal, name, owner), principal)


@router.put("/{name}")
async def put_view(name: Name, body: ViewBody, services: ServicesDep, principal: ReaderOfSome) -> SavedView:
    """Store a view of the caller; at most 100 of one person and 2,000 of all."""
    if body.name not in (None, name):
        raise InvalidMessage(
            localized("the path says {name}, the body {other}", name=repr(name), other=repr(body.name)), field="name"
        )
    found = await services.saved.put(
        principal, name, page=body.page, query=body.query.removeprefix("?"), shared=body.shared, version=body.version
    )
    return _view(found, principal)


@router.delete("/{name}", status_code=204)
async def delete_view(name: Name, services: ServicesDep, principal: ReaderOfSome, owner: Owner = None) -> Response:
    """Remove a view of the caller; an admin may remove a shared one of another user as well."""
    await services.saved.delete(principal, name, owner)
    return Response(status_code=204)


def _view(found: VersionedView, principal: Principal) -> SavedView:
    view = found.view
    return SavedView(
        name=view.name,
        page=view.page,
        query=view.query,
        shared=view.shared,
        owner=OwnerView(kind=view.kind, id=view.by, name=view.owner),
        mine=is_own(view, principal),
        version=found.version,
        updated_at=format_time(view.updated_at),
    )
