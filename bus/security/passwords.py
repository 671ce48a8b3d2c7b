"""Passwords of people: argon2id at rest, and what a password must be."""

from __future__ import annotations

import secrets
import unicodedata
from functools import cache
from typing import Final

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from bus.localized_text import localized

SHORTEST: Final = 12
LONGEST: Final = 1024
_GENERATED_BYTES: Final = 15
# RFC 9106's second recommendation: 64 MiB, three passes, four lanes.
_HASHER: Final = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4, type=Type.ID)


def new_password() -> str:
    """Return a password that nobody guesses."""
    return secrets.token_urlsafe(_GENERATED_BYTES)


def check_password(password: str, name: str) -> str:
    """Return a password that a person chose for a user of this name.

    Raises
    ------
    ValueError
        It is too short or too long, or is the name.
    """
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(
            localized("a password has {shortest} to {longest} characters", shortest=SHORTEST, longest=LONGEST)
        )
    if password.casefold() == name.casefold():
        raise ValueError(localized("the password is the name"))
    return password


def hash_password(password: str) -> str:
    """Return what is stored of a password. Takes some 100 ms and 64 MiB: not on the event loop."""
    return _HASHER.hash(_normal(password))


def verify_password(password: str, stored: str | None) -> bool:
    """Compare a password with what `hash_password` made; False when that is damaged, or None: nobody has that name.

    Takes as long for a name that nobody has. Some 100 ms and 64 MiB: not on the event loop.
    """
    nobody = _nobody()
    try:
        return _HASHER.verify(nobody if stored is None else stored, _normal(password)) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobody() -> str:
    return hash_password(new_password())


def _normal(password: str) -> bytes:
    """Return one form (NFKC) of a password, on whatever keyboard it was typed."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
