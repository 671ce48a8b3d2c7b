"""``/api/v1/lookup``: status of the proxies and actions on them, for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from bus.cluster.lookup_calls import LookupAnswer, LookupCall
from bus.domain.audit import sent
from bus.errors import BusError, InvalidMessage
from bus.http.asgi import JSON, Receive, RequestRefused, Scope, Send, answer, encode, read_body, refusing
from bus.http.problem import problem, problem_of
from bus.security.addresses import Network
from bus.security.audit_log import AuditLog
from bus.security.clients import client_address
from bus.security.keyring import Keyring
from bus.security.keys import Role
from bus.security.origins import refuse_foreign_page
from bus.security.principals import Principal

PREFIX: Final = "/api/v1/lookup"
LIMIT: Final = 16_384
_API: Final = "/api/v1/"
_LONGEST: Final = 500
_READING: Final = frozenset({"GET", "HEAD"})
_call: Final = msgspec.msgpack.Decoder(LookupCall)
Body = TypeVar("Body")


class ApiAnswer(NamedTuple):
    """An answer: a status, and what is sent as JSON."""

    status: int
    content: Any


Change = Callable[[], Awaitable[ApiAnswer]]


class Resource(Protocol):
    """One kind of things below ``PREFIX``."""

    def look(self, path: str) -> ApiAnswer | None:
        """Return the resource; None for a path of others."""
        ...

    def change(self, path: str, body: bytes, by: str) -> Change | None:
        """Return the action of a POST, which is not begun yet and may be refused; None for a path of others."""
        ...


class LookupApi:
    """Viewers may look; operators may change, and each request for a change is audited.

    ``proxies`` are trusted to say whom they serve.
    """

    def __init__(
        self, resources: Sequence[Resource], keyring: Keyring, audit: AuditLog, proxies: Collection[Network]
    ) -> None:
        self._resources = resources
        self._proxies = proxies
        self._keyring = keyring
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with refusing(scope, receive, send):
            headers = dict(scope["headers"])
            principal = self._keyring.authenticate(headers.get(b"authorization"), headers.get(b"host"))
            refuse_foreign_page(principal, headers)
            path = scope["path"].removeprefix(PREFIX)
            if scope["method"] in _READING:
                principal.require("read", None)
                done = self._look(path)
            else:
                body = await read_body(receive, headers, LIMIT)
                change = self._change(scope["method"], path, body, principal)
                done = await self._audited(scope, principal, body, change)
            await answer(send, done.status, encode(done.content), JSON)

    async def call(self, content: bytes) -> LookupAnswer:
        """Answer an admin process, which authorizes and audits its user; raises ``DecodeError`` for another version."""
        asked = _call.decode(content)
        operator = Principal(asked.by, asked.by, (Role.OPERATOR,), ())
        try:
            if asked.method in _READING:
                done = self._look(asked.path)
            else:
                done = await self._change(asked.method, asked.path, asked.body, operator)()
        except BusError as error:
            found = problem_of(error)
            return LookupAnswer(found.status, encode(found))
        return LookupAnswer(done.status, encode(done.content))

    def _look(self, path: str) -> ApiAnswer:
        for resource in self._resources:
            if (found := resource.look(path)) is not None:
                return found
        raise _unknown(path)

    def _change(self, method: str, path: str, body: bytes, principal: Principal) -> Change:
        for resource in self._resources:
            found = resource.change(path, body, principal.name)
            if found is not None and method != "POST":
                raise RequestRefused(problem(405, f"{PREFIX}{path} takes POST"), (b"allow", b"POST"))
            if found is not None:
                return found
        raise _unknown(path)

    async def _audited(self, scope: Scope, principal: Principal, body: bytes, change: Change) -> ApiAnswer:
        """Make a change with an entry in the audit log, which is there before it and has its outcome after it."""
        client = scope.get("client")
        address = client_address(client[0], scope["headers"], self._proxies) if client else ""
        entry = self._audit.entry(
            principal,
            scope["method"],
            scope["path"].removeprefix(_API)[:_LONGEST],
            changes=sent(_decoded(body)),
            address=address,
        )
        await self._audit.add(entry)
        try:
            principal.require("pause", None)
            done = await change()
        except BusError as error:
            await self._audit.complete(entry, problem_of(error).status)
            raise
        await self._audit.complete(entry, done.status)
        return done


def read_as(body: bytes, kind: type[Body]) -> Body:
    """Read a body, an empty one as ``{}``.

    Raises
    ------
    InvalidMessage
        It is not of that shape.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidMessage(f"the body cannot be meant: {error}; nothing was changed", field="body") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(problem(400, f"the body is no JSON: {error}; nothing was changed")) from error


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unknown(path: str) -> RequestRefused:
    return RequestRefused(problem(404, f"there is no {PREFIX}{path[:200]}"))
