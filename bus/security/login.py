"""Logging in: who tries how often, and whether the password is right."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Hashable
from typing import Final

from bus.errors import AccessDenied, TooManyAttempts
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.security.clients import network_of
from bus.security.keyring import Keyring, StoredUser
from bus.security.passwords import verify_password
from bus.security.throttle import Limit, Throttle

_log = logging.getLogger(__name__)
_PAIR: Final = Limit(free=5, longest=300.0)
_NAME: Final = Limit(free=30, longest=10.0)  # short: whoever tries a name from many addresses holds up its owner
_ADDRESS: Final = Limit(free=20, longest=60.0)
_DEVICE: Final = Limit(free=10, longest=300.0)
_AT_ONCE: Final = 2  # each takes 64 MiB
_MOST_WAITING: Final = 32
_NONCE_BYTES: Final = 16


class Login:
    """Compares passwords, a few at a time, and makes whoever fails wait longer each time.

    A browser in which somebody logged in before has a device token, and its attempts are counted by that alone: others
    who try a person's name again and again do not lock the person out. Counts are in this process's memory only.
    """

    def __init__(self, keyring: Keyring, clock: Clock) -> None:
        self._keyring = keyring
        self._pairs = Throttle(_PAIR, clock.monotonic)
        self._names = Throttle(_NAME, clock.monotonic)
        self._addresses = Throttle(_ADDRESS, clock.monotonic)
        self._devices = Throttle(_DEVICE, clock.monotonic)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def check(self, name: str, password: str, *, address: str, device: str | None) -> StoredUser:
        """Return the user that has this name and password. It takes as long when nobody has that name.

        Raises
        ------
        AccessDenied
            401: the name or the password is wrong.
        TooManyAttempts
            Somebody failed too often lately; nothing was looked at or counted.
        """
        user = self._with_password(name)
        subjects = self._subjects(name, network_of(address), _nonce(user, device))
        wait = max(throttle.wait(subject) for throttle, subject in subjects)
        if wait > 0 or self._waiting >= _MOST_WAITING:
            raise TooManyAttempts(
                localized("too many attempts to log in failed"), hint=localized("try again later"), wait=max(wait, 1.0)
            )
        for throttle, subject in subjects:
            throttle.count(subject)
        if not await self._verify(password, user) or user is None:
            _log.warning("a login of %s from %s failed", repr(name) if user else "a name that is not known", address)
            raise AccessDenied(
                localized("the name or the password is wrong"), hint=localized("an admin can reset it"), status=401
            )
        (own, subject), *shared = subjects
        own.clear(subject)
        for throttle, subject in shared:
            throttle.forgive(subject)
        return user

    def _with_password(self, name: str) -> StoredUser | None:
        """Return a user who may log in by a password; None for any other, who gets the answer for an unknown name."""
        user = self._keyring.user(name)
        return user if user is not None and not user.subject and not user.blocked else None

    def _subjects(self, name: str, network: str, nonce: str | None) -> list[tuple[Throttle, Hashable]]:
        if nonce is not None:
            return [(self._devices, (name, nonce))]
        return [(self._pairs, (name, network)), (self._names, name), (self._addresses, network)]

    async def _verify(self, password: str, user: StoredUser | None) -> bool:
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(verify_password, password, user.password if user else None)
        finally:
            self._waiting -= 1


def new_device(user: StoredUser) -> str:
    """Return a token for a browser in which this user logged in; another password ends it."""
    nonce = secrets.token_hex(_NONCE_BYTES)
    return f"{nonce}.{_seal(user, nonce)}"


def _nonce(user: StoredUser | None, device: str | None) -> str | None:
    """Return the nonce of a device token; None unless the token is this user's."""
    nonce, _, seal = (device or "").partition(".")
    if user is None or not seal.isascii() or not hmac.compare_digest(seal, _seal(user, nonce)):
        return None
    return nonce


def _seal(user: StoredUser, nonce: str) -> str:
    return hmac.digest(user.password.encode(), f"device {user.name} {nonce}".encode("utf-8", "replace"), "sha256").hex()
