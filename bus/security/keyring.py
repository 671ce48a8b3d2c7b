"""API keys and users, kept in the store and checked from memory."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from bus.errors import AccessDenied, Conflict, NotFound, StoreError
from bus.http.hosts import is_loopback
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore
from bus.security.key_uses import KeyUses
from bus.security.keys import Role, hash_key, new_key, split_key, verify_key
from bus.security.passwords import hash_password, new_password
from bus.security.principals import ANYONE, Identity, Principal

_log = logging.getLogger(__name__)
KEYS: Final = "keys"
USERS: Final = "users"
_BEARER: Final = b"bearer "
_CACHED: Final = 10_000
_FOLLOW: Final = 1.0
_SAVE_USES: Final = 60  # loads
_STAMP_BYTES: Final = 16


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key at rest; ``destinations`` empty means all, ``rate`` is as of `Principal`."""

    id: str
    digest: str
    roles: tuple[str, ...]
    destinations: tuple[str, ...] = ()
    created_at: int = 0
    name: str = ""
    rate: float | None = None
    burst: int | None = None


class StoredUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user at rest; ``destinations`` empty means all.

    Attributes
    ----------
    password
        Its hash; of who logs in at a provider random text that no password has.
    subject
        Who it is at an OpenID Connect provider, empty for who has a password here.
    blocked
        May not log in, and has no session.
    epoch
        Sessions of another epoch have ended.
    """

    name: str
    password: str
    role: str
    destinations: tuple[str, ...] = ()
    created_at: int = 0
    subject: str = ""
    blocked: bool = False
    epoch: int = 0


class Keyring:
    """Keys and users, loaded once and changed through here.

    Until the first one is made the bus is open: whoever reaches it on loopback may do everything.
    """

    def __init__(self, documents: DocumentStore, now: Callable[[], int]) -> None:
        self._documents = documents
        self._now = now
        self._keys: dict[str, StoredKey] = {}
        self._users: dict[str, StoredUser] = {}
        self._seen: dict[bytes, Principal] = {}
        self._uses = KeyUses(documents, now)
        self._changing = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether no key and no user was made yet."""
        return not self._keys and not self._users

    async def load(self) -> None:
        """Read all keys and users."""
        async with self._changing:
            await self._load()

    async def _load(self) -> None:
        before = (self._keys, self._users)
        keys = [msgspec.json.decode(found.value, type=StoredKey) for found in await self._documents.list(KEYS)]
        users = [msgspec.json.decode(found.value, type=StoredUser) for found in await self._documents.list(USERS)]
        self._keys = {key.id: key for key in keys}
        self._users = {user.name: user for user in users}
        if before != (self._keys, self._users):
            self._seen.clear()

    async def follow(self, clock: Clock) -> None:
        """Load again every second until cancelled: what one process makes or revokes is so in all.

        ``bus key create --data`` works beside a running bus. Once a minute the use of keys is saved.
        """
        for turn in itertools.count(1):
            await clock.sleep(_FOLLOW)
            try:
                await self.load()
                if not turn % _SAVE_USES:
                    await self._uses.save(self._keys)
            except StoreError as error:
                _log.debug("keys are not loaded while the store does not answer: %s", error)

    def authenticate(self, authorization: bytes | None, host: bytes | None) -> Principal:
        """Return who sends these headers.

        Raises
        ------
        AccessDenied
            401: a key is needed, or is wrong. 403: the bus is open, and the Host is another's (DNS rebinding).
        """
        if self.is_open:
            if not is_loopback(host):
                raise AccessDenied(
                    localized("without keys the bus answers on loopback names only"), hint="bus key create"
                )
            return ANYONE
        if authorization is None:
            raise AccessDenied(
                localized("a key is needed"),
                hint=localized("send Authorization: Bearer KEY; bus key create"),
                status=401,
            )
        known = self._seen.get(authorization) or self._verify(authorization)
        self._uses.note(known.id)
        return known

    def knows(self, authorization: bytes) -> bool:
        """Whether this header has a valid key."""
        try:
            return authorization in self._seen or bool(self._verify(authorization))
        except AccessDenied:
            return False

    def all_keys(self) -> list[StoredKey]:
        """Return all keys, the oldest first."""
        return sorted(self._keys.values(), key=lambda key: key.created_at)

    async def last_uses(self) -> dict[str, int]:
        """Return when keys were used last in any process (ms, to the minute), by id; those never used are left out."""
        return await self._uses.load()

    def all_users(self) -> list[StoredUser]:
        """Return all users by name."""
        return sorted(self._users.values(), key=lambda user: user.name)

    async def create_key(
        self,
        *,
        roles: tuple[str, ...],
        destinations: tuple[str, ...] = (),
        name: str = "",
        rate: float | None = None,
        burst: int | None = None,
    ) -> str:
        """Make a key and return it; it is stored hashed and cannot be shown again. In force at once."""
        key_id, secret = new_key()
        stored = StoredKey(
            id=key_id,
            digest=hash_key(secret),
            roles=tuple(Role(role) for role in roles),
            destinations=destinations,
            created_at=self._now(),
            name=name,
            rate=rate,
            burst=burst,
        )
        async with self._changing:
            await self._documents.put(KEYS, key_id, msgspec.json.encode(stored), version=0)
            self._keys[key_id] = stored
        return secret

    def key(self, key_id: str) -> StoredKey:
        """Return a key; raises ``NotFound``."""
        found = self._keys.get(key_id)
        if found is None:
            raise _no_key(key_id)
        return found

    async def limit_key(self, key_id: str, rate: float | None, burst: int | None) -> StoredKey:
        """Change how much a key may send; in force here at once and elsewhere within seconds.

        Raises
        ------
        NotFound
            There is no such key.
        Conflict
            Somebody else changed or revoked it meanwhile.
        """
        async with self._changing:
            found = await self._documents.get(KEYS, key_id)
            if found is None:
                raise _no_key(key_id)
            stored = msgspec.json.decode(found.value, type=StoredKey)
            changed = msgspec.structs.replace(stored, rate=rate, burst=burst)
            await self._documents.put(KEYS, key_id, msgspec.json.encode(changed), version=found.version)
            self._keys[key_id] = changed
            self._seen.clear()
        return changed

    async def delete_key(self, key_id: str) -> bool:
        """Revoke a key, in force here at once and elsewhere within seconds; whether it was there.

        Raises
        ------
        Conflict
            It is the last, and there is no user: without it the bus would be open.
        """
        async with self._changing:
            await self._load()
            if self._keys.keys() == {key_id} and not self._users:
                raise Conflict(
                    localized("this is the last key; without it the bus would be open"),
                    hint=localized("make another one first"),
                )
            there = await self._documents.delete(KEYS, key_id)
            self._keys.pop(key_id, None)
            self._seen.clear()
            with suppress(StoreError):  # nobody is shown the uses of a key that is not there
                await self._uses.forget(key_id)
        return there

    def user(self, name: str) -> StoredUser | None:
        """Return a user."""
        return self._users.get(name)

    async def add_user(self, name: str, role: str, destinations: tuple[str, ...] = ()) -> str:
        """Make a user and return the password made for it; raises ``Conflict`` when the name is taken."""
        if name in self._users:
            raise Conflict(localized("there is a user {name} already", name=repr(name)))
        password = new_password()
        stored = StoredUser(
            name=name,
            password=await asyncio.to_thread(hash_password, password),
            role=Role(role),
            destinations=destinations,
            created_at=self._now(),
        )
        async with self._changing:
            await self._documents.put(USERS, name, msgspec.json.encode(stored), version=0)
            self._users[name] = stored
        return password

    async def sign_in(self, identity: Identity) -> StoredUser:
        """Return the user for somebody who logged in at a provider, made or changed to the rights that they have now.

        Raises
        ------
        AccessDenied
            403: they are blocked here, or the name is somebody else's.
        """
        known = await self._stored_user(identity.name)
        if known is None:
            return await self._add_signed_in(identity)
        if known.subject != identity.subject:
            raise AccessDenied(
                localized("another user {name} exists here; no session was created", name=repr(identity.name)),
                hint=localized("an admin can remove that user: bus user rm"),
            )
        if known.blocked:
            raise AccessDenied(
                localized("{name} is blocked here; no session was created", name=identity.name),
                hint=localized("ask an admin of the bus"),
            )
        if (known.role, known.destinations) == (identity.role, identity.destinations):
            return known
        return await self.change_user(identity.name, identity.role, identity.destinations)

    async def sign_out(self, subject: str) -> None:
        """End the sessions of who may no longer log in at a provider."""
        for user in self.all_users():
            if user.subject == subject:
                await self._change_user(user.name, epoch=user.epoch + 1)

    async def change_user(
        self, name: str, role: str, destinations: tuple[str, ...], *, blocked: bool | None = None
    ) -> StoredUser:
        """Change what a user may do; in force here at once and elsewhere within seconds.

        Raises
        ------
        NotFound
            There is no such user.
        """
        changes: dict[str, object] = {"role": Role(role), "destinations": destinations}
        known = self._users.get(name)
        if blocked is not None and known is not None and blocked != known.blocked:
            changes |= {"blocked": blocked, "epoch": known.epoch + 1}
        return await self._change_user(name, **changes)

    async def set_password(self, name: str, password: str | None = None) -> tuple[StoredUser, str]:
        """Give a user a password, or one made for it; return both. It ends their sessions.

        Raises
        ------
        NotFound
            There is no such user.
        Conflict
            They log in at a provider.
        """
        known = await self._stored_user(name)
        if known is not None and known.subject:
            raise Conflict(
                localized("{name} logs in at the OpenID Connect provider", name=repr(name)),
                hint=localized("the password is changed there"),
            )
        given = password if password is not None else new_password()
        return await self._change_user(name, password=await asyncio.to_thread(hash_password, given)), given

    async def delete_user(self, name: str) -> bool:
        """Remove a user and so end their sessions, here at once and elsewhere within seconds; whether it was there.

        Raises
        ------
        Conflict
            It is the last, and there is no key: without it the bus would be open.
        """
        async with self._changing:
            await self._load()
            if self._users.keys() == {name} and not self._keys:
                raise Conflict(
                    localized("this is the last user; without it the bus would be open"),
                    hint=localized("make another one first"),
                )
            there = await self._documents.delete(USERS, name)
            self._users.pop(name, None)
        return there

    async def _add_signed_in(self, identity: Identity) -> StoredUser:
        stored = StoredUser(
            name=identity.name,
            password=f"oidc:{secrets.token_hex(_STAMP_BYTES)}",
            role=identity.role,
            destinations=identity.destinations,
            created_at=self._now(),
            subject=identity.subject,
        )
        async with self._changing:
            await self._documents.put(USERS, identity.name, msgspec.json.encode(stored), version=0)
            self._users[identity.name] = stored
        return stored

    async def _stored_user(self, name: str) -> StoredUser | None:
        found = await self._documents.get(USERS, name)
        return msgspec.json.decode(found.value, type=StoredUser) if found is not None else None

    async def _change_user(self, name: str, **changes: object) -> StoredUser:
        async with self._changing:
            found = await self._documents.get(USERS, name)
            if found is None:
                raise NotFound(localized("there is no user {name}", name=repr(name[:128])), hint="bus user list")
            changed = msgspec.structs.replace(msgspec.json.decode(found.value, type=StoredUser), **changes)
            await self._documents.put(USERS, name, msgspec.json.encode(changed), version=found.version)
            self._users[name] = changed
        return changed

    def _verify(self, authorization: bytes) -> Principal:
        key = _bearer(authorization)
        parts = split_key(key)
        stored = self._keys.get(parts[0]) if parts is not None else None
        if stored is None or not verify_key(key, stored.digest):
            raise AccessDenied(localized("the key is not known"), hint="bus key create", status=401)
        principal = Principal(
            stored.id,
            f"key {stored.name or stored.id}",
            stored.roles,
            stored.destinations,
            rate=stored.rate,
            burst=stored.burst,
        )
        if len(self._seen) >= _CACHED:
            self._seen.clear()
        self._seen[authorization] = principal
        return principal


def _bearer(authorization: bytes) -> str:
    if authorization[: len(_BEARER)].lower() != _BEARER:
        raise AccessDenied(localized("the Authorization header is not Bearer KEY"), status=401)
    return authorization[len(_BEARER) :].strip().decode("latin-1")


def _no_key(key_id: str) -> NotFound:
    return NotFound(localized("there is no key {id}", id=repr(key_id[:64])), hint="bus key list")
