"""Routes that write to the audit log before or with the change, and its outcome before the answer is sent."""

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
from bus.ports.store import DocumentWrite
from bus.security.audit_log import document_of
from bus.security.principals import Principal

_PREFIX: Final = "/api/v1/"
_LONGEST: Final = 500
UNMASKED: Final = "unmasked"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AuditedRoute(APIRoute):
    """A route that audits every request that may change something or reads masked values (``?unmasked=true``).

    A caller without valid credentials is refused before, without an entry; one who may not do it gets an entry.
    An endpoint with an ``EntryDep`` writes the entry of a request that succeeds itself, together with its change.
    """

    def get_route_handler(self) -> Handler:
        """Return the handler that FastAPI makes, with the log around it."""
        handle = super().get_route_handler()
        is_joined = any(dependency.call is _joined for dependency in self.dependant.dependencies)

        async def audited(request: Request) -> Response:
            asked = _unmasking(request)
            if request.method in READING and not asked:
                return await handle(request)
            principal = await who(request, services_of(request))
            body = _decoded(await request.body())
            noting = request.state.noting = AuditNotes(sent(body) | asked)
            log = services_of(request).audit
            entry = _entry_of(request, principal, named(body) | asked)
            if is_joined:
                request.state.joined = JoinedEntry(entry, noting)
            else:
                await log.add(entry)
            try:
                response = await handle(request)
            except Exception as error:
                entry.status = problem_for(error).status
                await (log.add(entry) if is_joined else log.complete(entry, entry.status))
                raise
            if not is_joined:
                entry.changes = noting.changes
                await log.complete(entry, response.status_code)
            return response

        return audited


class AuditNotes:
    """The changes in a request's audit entry: those requested, until its route sets those actually made."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self.changes = changes

    def compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Set the changes to what differs between two states of the resource."""
        self.changes = compared(before, after)


class JoinedEntry:
    """A request's audit entry that its endpoint writes together with the change."""

    def __init__(self, entry: Entry, noting: AuditNotes) -> None:
        self._entry = entry
        self._noting = noting

    def document(self, status: int) -> DocumentWrite:
        """Return the entry as it is when the request is answered with a status."""
        return document_of(msgspec.structs.replace(self._entry, status=status, changes=self._noting.changes))


def _unmasking(request: Request) -> dict[str, Change]:
    asked = request.query_params.get(UNMASKED)
    return {UNMASKED: Change(None, asked[:_LONGEST])} if asked is not None else {}


def is_noted(request: Request) -> bool:
    """Whether a request has an entry in the audit log."""
    return hasattr(request.state, "noting")


def _noting(request: Request) -> AuditNotes:
    found: AuditNotes = request.state.noting
    return found


def _joined(request: Request) -> JoinedEntry:
    found: JoinedEntry = request.state.joined
    return found


NotingDep = Annotated[AuditNotes, Depends(_noting)]
EntryDep = Annotated[JoinedEntry, Depends(_joined)]


async def add_entry(
    request: Request,
    principal: Principal,
    *,
    changes: dict[str, Change] | None = None,
    status: int | None = None,
    method: str = "",
    resource: str = "",
) -> None:
    """Add an entry for a request; ``status`` once its answer is known. Raises ``StoreUnavailable``.

    ``method`` and ``resource`` name one of several changes that a request makes; by default its own.
    """
    entry = _entry_of(request, principal, changes or {}, method=method, resource=resource)
    entry.status = status
    await services_of(request).audit.add(entry)


def _entry_of(
    request: Request, principal: Principal, changes: dict[str, Change], *, method: str = "", resource: str = ""
) -> Entry:
    where = resource or request.scope["path"].removeprefix(_PREFIX)
    return services_of(request).audit.entry(
        principal, method or request.method, where[:_LONGEST], changes=changes, address=address_of(request)
    )


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        return None
