"""``/api/v1/lookup``: migrations of topics, begun, watched and steered by people."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from bus.cluster.lookup_calls import LookupAnswer, LookupCall
from bus.domain.audit import sent
from bus.domain.routing.migration import Migration, advance, pause, rollback
from bus.domain.routing.steps import Kind
from bus.errors import AccessDenied, BusError, InvalidMessage
from bus.http.asgi import JSON, Receive, Refused, Scope, Send, answer, encode, read_body, refusing
from bus.http.problem import problem, problem_of
from bus.ports.clock import Clock
from bus.security.audit_log import AuditLog
from bus.security.keyring import Keyring
from bus.security.keys import Role
from bus.security.origins import is_ours
from bus.security.principals import Principal
from bus.sentences import sentence
from lookup.migrations import Migrations
from lookup.migrator import Migrator
from lookup.planning import Planning, Wanted
from lookup.showing import shown, shown_plan

PREFIX: Final = "/api/v1/lookup"
LIMIT: Final = 16_384
_API: Final = "/api/v1/"
_ONE: Final = re.compile(r"/migrations/([^/]{1,200})")
_ACTION: Final = re.compile(r"/migrations/([^/]{1,200})/(advance|pause|resume|rollback)")
_READING: Final = frozenset({"GET", "HEAD"})
_OK: Final = 200
_CREATED: Final = 201
_call: Final = msgspec.msgpack.Decoder(LookupCall)
Body = TypeVar("Body")


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    to: str
    kind: Kind | None = None
    partitions: int | None = None
    interval: float | None = None
    dry_run: bool = False


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    step: str = ""


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Done(NamedTuple):
    """An answer: a status, and what is sent as JSON."""

    status: int
    content: Any


class MigrationsApp:
    """Viewers may look; operators may begin migrations and steer them, and each such request is audited."""

    def __init__(
        self,
        migrations: Migrations,
        migrator: Migrator,
        planning: Planning,
        keyring: Keyring,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._migrations = migrations
        self._migrator = migrator
        self._planning = planning
        self._keyring = keyring
        self._audit = audit
        self._clock = clock
        self._actions: dict[str, Callable[[Migration, bytes, str], Migration]] = {
            "advance": lambda one, body, by: advance(one, _read(body, _Step).step or one.step, clock.now(), by),
            "pause": lambda one, _, __: pause(one, paused=True),
            "resume": lambda one, _, __: pause(one, paused=False),
            "rollback": lambda one, _, by: rollback(one, clock.now(), by),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with refusing(scope, receive, send):
            headers = dict(scope["headers"])
            principal = self._keyring.authenticate(headers.get(b"authorization"), headers.get(b"host"))
            _refuse_foreign_page(principal, headers)
            path = scope["path"].removeprefix(PREFIX)
            if scope["method"] in _READING:
                principal.require("read", None)
                done = self._look(path)
            else:
                body = await read_body(receive, headers, LIMIT)
                done = await self._audited(scope, principal, body, self._change(scope["method"], path, body, principal))
            await answer(send, done.status, encode(done.content), JSON)

    async def call(self, content: bytes) -> LookupAnswer:
        """Answer an admin, which has let in and audited whoever asks it; raises ``DecodeError`` for another version."""
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

    def _look(self, path: str) -> Done:
        if path == "/migrations":
            return Done(_OK, {"items": [self._shown(one) for one in self._migrations.all], "next": None})
        if (found := _ONE.fullmatch(path)) is not None:
            return Done(_OK, self._shown(self._migrations.get(unquote(found[1]))))
        raise _unknown(path)

    def _change(self, method: str, path: str, body: bytes, principal: Principal) -> Callable[[], Awaitable[Done]]:
        """Return what a request is about, which may still be refused."""
        action = _ACTION.fullmatch(path)
        if path != "/migrations" and action is None:
            raise _unknown(path)
        if method != "POST":
            raise Refused(problem(405, f"{PREFIX}{path} takes POST"), (b"allow", b"POST"))
        if action is not None:
            return lambda: self._steer(unquote(action[1]), action[2], body, principal)
        return lambda: self._begin(body, principal)

    async def _begin(self, body: bytes, principal: Principal) -> Done:
        principal.require("pause", None)
        asked = _read(body, _Asked)
        wanted = Wanted(asked.topic, asked.to, asked.kind, asked.partitions, asked.interval)
        plan = await self._planning.plan(wanted, principal.name)
        if asked.dry_run:
            return Done(_OK, shown_plan(plan))
        await self._migrations.start(plan.migration)
        return Done(_CREATED, self._shown(plan.migration))

    async def _steer(self, migration_id: str, action: str, body: bytes, principal: Principal) -> Done:
        principal.require("pause", None)
        before = self._migrations.get(migration_id)
        if action != "advance" and body:
            _read(body, _Nothing)
        after = self._actions[action](before, body, principal.name)
        await self._migrations.replace(before, after)
        return Done(_OK, self._shown(after))

    async def _audited(
        self, scope: Scope, principal: Principal, body: bytes, change: Callable[[], Awaitable[Done]]
    ) -> Done:
        """Make a change with an entry in the audit log, which is there before it and has its outcome after it."""
        client = scope.get("client")
        entry = await self._audit.add(
            principal,
            scope["method"],
            scope["path"].removeprefix(_API)[:500],
            changes=sent(_decoded(body)),
            address=client[0] if client else "",
        )
        try:
            done = await change()
        except BusError as error:
            await self._audit.complete(entry, problem_of(error).status)
            raise
        await self._audit.complete(entry, done.status)
        return done

    def _shown(self, migration: Migration) -> dict[str, Any]:
        return shown(migration, self._migrator.known(migration.id), self._clock.now())


def _read(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidMessage(f"the body cannot be meant: {error}; nothing was changed", field="body") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(problem(400, f"the body is no JSON: {error}; nothing was changed")) from error


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _refuse_foreign_page(principal: Principal, headers: Mapping[bytes, bytes]) -> None:
    """Refuse what a browser sends for another site's page while no key is needed."""
    named = [headers.get(name, b"").decode("latin-1") or None for name in (b"sec-fetch-site", b"origin", b"host")]
    site, origin, host = named
    if principal.kind == "open" and (site or origin) and not is_ours(site, origin, host):
        raise AccessDenied(sentence("a page of another site may not do this"), hint="bus key create")


def _unknown(path: str) -> Refused:
    return Refused(problem(404, f"there is no {PREFIX}{path[:200]}"))
