"""API keys, and the one rule about who may do what."""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable
from typing import Final

_KEY: Final = re.compile(r"bus_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Role(enum.StrEnum):
    """What a key or user is for."""

    PRODUCER = "producer"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Action(enum.StrEnum):
    """What somebody wants to do."""

    INGEST = "ingest"
    READ = "read"
    RESEND = "resend"
    PAUSE = "pause"
    UNMASK = "unmask"  # see what a destination's masking rules hide
    CONFIGURE = "configure"  # anything else: destinations, subscriptions, keys, users


_MAY: Final[dict[str, frozenset[str]]] = {
    Role.PRODUCER: frozenset({Action.INGEST}),
    Role.VIEWER: frozenset({Action.READ}),
    Role.OPERATOR: frozenset({Action.READ, Action.RESEND, Action.PAUSE}),
    Role.ADMIN: frozenset(Action),
}


def allows(roles: Iterable[str], destinations: Collection[str], action: str, destination: str | None) -> bool:
    """Return whether the roles allow an action on a destination; pure.

    Parameters
    ----------
    roles
        Unknown ones allow nothing.
    destinations
        Codes that all roles but ``admin`` are limited to; empty for no limit.
    action
        One of `Action`; unknown ones are allowed to nobody.
    destination
        The code; None for what concerns them all, which a limited key may not do.
    """
    known = [role for role in roles if action in _MAY.get(role, ())]
    if not destinations or Role.ADMIN in known:
        return bool(known)
    return bool(known) and destination in destinations


def new_key() -> tuple[str, str]:
    """Return the id of a new API key and the key itself, ``bus_<id>_<random>``, which is shown once and not stored."""
    key_id = secrets.token_hex(6)
    return key_id, f"bus_{key_id}_{secrets.token_urlsafe(32)}"


def split_key(key: str) -> tuple[str, str] | None:
    """Return the id and the random part of a key, or None when it does not look like one."""
    match = _KEY.fullmatch(key)
    return (match[1], match[2]) if match else None


def hash_key(key: str) -> str:
    """Return what is stored of a key. One round of SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(key.encode()).hexdigest()


def verify_key(key: str, digest: str) -> bool:
    """Compare a key with what is stored, in constant time."""
    return hmac.compare_digest(hash_key(key).encode(), digest.encode())
