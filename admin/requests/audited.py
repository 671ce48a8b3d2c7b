"""Routes whose changes are in the audit log before they are made, and with their outcome before they are answered."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from admin.access.identity import READING
from admin.deps import address_of, services_of, who
from admin.requests.problems import problem_for
from bus.domain.audit import Change, Entry, compared, named, sent
from bus.security.principals import Principal

_PREFIX: Final = "/api/v1/"
_LONGEST: Final = 500
UNMASKED: Final = "unmasked"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AuditedRoute(APIRoute):
    """A route of which every request that may change something is in the audit log.

    Who is not known is refused before, and leaves no entry; who is known and may not do it leaves one. So is every
    request that asks for what masking rules hide (``?unmasked=true``).
    """

    def get_route_handler(self) -> Handler:
        """Return the handler that FastAPI makes, with the log around it."""
        handle = super().get_route_handler()

        async def audited(request: Request) -> Response:
            asked = _unmasking(request)
            if request.method in READING and not asked:
                return await handle(request)
            principal = await who(request, services_of(request))
            body = _decoded(await request.body())
            noting = request.state.noting = Noting(sent(body) | asked)
            entry = await add_entry(request, principal, changes=named(body) | asked)
            log = services_of(request).audit
            try:
                response = await handle(request)
            except Exception as error:
                await log.complete(entry, problem_for(error).status)
                raise
            entry.changes = noting.changes
            await log.complete(entry, response.status_code)
            return response

        return audited


class Noting:
    """What the log says of a request's changes: what it asks for, unless its route knows what it really changed."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self.changes = changes

    def compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Say what differs between two states of the resource."""
        self.changes = compared(before, after)


def _unmasking(request: Request) -> dict[str, Change]:
    asked = request.query_params.get(UNMASKED)
    return {UNMASKED: Change(None, asked[:_LONGEST])} if asked is not None else {}


def is_noted(request: Request) -> bool:
    """Whether a request is in the log."""
    return hasattr(request.state, "noting")


def _noting(request: Request) -> Noting:
    found: Noting = request.state.noting
    return found


NotingDep = Annotated[Noting, Depends(_noting)]


async def add_entry(
    request: Request,
    principal: Principal,
    *,
    changes: dict[str, Change] | None = None,
    status: int | None = None,
    method: str = "",
    resource: str = "",
) -> Entry:
    """Add an entry for a request; ``status`` once its answer is known. Raises ``StoreUnavailable``.

    ``method`` and ``resource`` are those of a part of a request that changes many; else its own.
    """
    where = resource or request.scope["path"].removeprefix(_PREFIX)
    return await services_of(request).audit.add(
        principal,
        method or request.method,
        where[:_LONGEST],
        changes=changes or {},
        address=address_of(request),
        status=status,
    )


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        return None
