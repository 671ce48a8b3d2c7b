"""Sessions of people: kept in the store, found by the hash of a token that only the browser has."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from bus.errors import Conflict, StoreError, StoreUnavailable
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore
from bus.security.keyring import Keyring, StoredUser
from bus.security.principals import Principal

SESSIONS: Final = "sessions"
COOKIE: Final = "bus_session"
# A browser takes a cookie of this name only over TLS, from this very host.
HOST: Final = "__Host-"
_TOKEN: Final = re.compile(rf"(?:^|; ?)(?:{HOST})?{COOKIE}=([A-Za-z0-9_-]+)".encode())
_TOKEN_BYTES: Final = 32
_MOST_KNOWN: Final = 10_000
_TOUCH: Final = 60_000  # ms between two writes of when a session was used
_TOUCHES: Final = 10  # at least so many within the idle time-out
_CHUNK: Final = 256


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session at rest; ``stamp`` follows from the user's password and epoch as they were."""

    user: str
    stamp: str
    created_at: int
    seen_at: int


class Session(NamedTuple):
    """A session that is valid: ``csrf`` is what changes must show, ``expires_at`` (ms) is when it ends in any case."""

    id: str
    user: StoredUser
    principal: Principal
    csrf: str
    expires_at: int


class Limits(NamedTuple):
    """After how long (ms) a session ends without a request, and in any case."""

    idle: int
    lifetime: int


class Sessions:
    """The sessions of all people; every process sees the same ones at once, also after a restart.

    While the store is away, the sessions that this process has seen hold on, as keys do; nobody can log in or out then.
    """

    def __init__(self, documents: DocumentStore, keyring: Keyring, clock: Clock, limits: Limits) -> None:
        self._documents = documents
        self._keyring = keyring
        self._clock = clock
        self.limits = limits
        self._known: dict[str, StoredSession] = {}

    async def open(self, user: StoredUser) -> str:
        """Begin a session and return its token, which is stored hashed; durable when it returns."""
        token, now = secrets.token_urlsafe(_TOKEN_BYTES), self._clock.now()
        stored = StoredSession(user=user.name, stamp=_stamp(user), created_at=now, seen_at=now)
        await self._documents.put(SESSIONS, _hash(token), msgspec.json.encode(stored), version=0)
        return token

    async def find(self, token: str, *, used: bool = True) -> Session | None:
        """Return the session of a token; None when it ended, or its user is gone, blocked or has another password.

        ``used`` begins its idle time anew.
        """
        name = _hash(token)
        stored = await self._read(name, used=used)
        if stored is None or self._is_over(stored):
            self._known.pop(name, None)
            return None
        user = await self._user(stored)
        if user is None:
            return None
        expires_at = stored.created_at + self.limits.lifetime
        return Session(name, user, principal_of(user), csrf_of(token), expires_at)

    def knows(self, cookies: bytes) -> bool:
        """Whether the value of a ``Cookie`` header has a session that this process has found valid and is not over."""
        found = [self._known.get(_hash(token.decode())) for token in _TOKEN.findall(cookies)]
        return any(stored is not None and not self._is_over(stored) for stored in found)

    async def close(self, session_id: str) -> None:
        """End a session; durable when it returns."""
        await self._documents.delete(SESSIONS, session_id)
        self._known.pop(session_id, None)

    async def expire(self) -> int:
        """Drop the sessions that ended; return how many."""
        dropped, after = 0, ""
        while documents := await self._documents.list(SESSIONS, after=after, limit=_CHUNK):
            after = documents[-1].key
            for document in documents:
                if self._is_over(_decode(document)):
                    dropped += await self._documents.delete(SESSIONS, document.key)
        return dropped

    async def _read(self, name: str, *, used: bool) -> StoredSession | None:
        try:
            document = await self._documents.get(SESSIONS, name)
        except StoreUnavailable:
            if name not in self._known:
                raise
            return self._known[name]
        if document is None:
            return None
        stored = await self._touched(document) if used else _decode(document)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = stored
        return stored

    async def _touched(self, document: Document) -> StoredSession:
        """Note now and then that a session is used, unless it ended meanwhile."""
        stored, now = _decode(document), self._clock.now()
        if self._is_over(stored) or now - stored.seen_at < min(_TOUCH, self.limits.idle // _TOUCHES):
            return stored
        seen = msgspec.structs.replace(stored, seen_at=now)
        with suppress(Conflict, StoreError):
            await self._documents.put(SESSIONS, document.key, msgspec.json.encode(seen), version=document.version)
        return seen

    async def _user(self, stored: StoredSession) -> StoredUser | None:
        """Return the user of a session; one that was changed in another process a moment ago is read again."""
        user = self._keyring.user(stored.user)
        if user is None or _stamp(user) != stored.stamp:
            await self._keyring.load()
            user = self._keyring.user(stored.user)
        holds = user is not None and not user.blocked and hmac.compare_digest(_stamp(user), stored.stamp)
        return user if holds else None

    def _is_over(self, stored: StoredSession) -> bool:
        now = self._clock.now()
        return now >= min(stored.seen_at + self.limits.idle, stored.created_at + self.limits.lifetime)


def principal_of(user: StoredUser) -> Principal:
    """Return a user as one who makes requests."""
    return Principal(user.name, user.name, (user.role,), user.destinations, "user")


def csrf_of(token: str) -> str:
    """Return what a page must show with each change: it follows from the token, which a page cannot read."""
    return hmac.digest(token.encode(), b"csrf", "sha256").hex()


def _stamp(user: StoredUser) -> str:
    epoch = f" {user.epoch}" if user.epoch else ""
    return hashlib.sha256(f"{user.password}{epoch}".encode()).hexdigest()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _decode(document: Document) -> StoredSession:
    return msgspec.json.decode(document.value, type=StoredSession)
