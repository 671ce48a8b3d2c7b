"""Subscribers' secrets at rest."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Final

from bus.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PLAIN: Final = "plain:"
_SEALED: Final = "aesgcm:"
_NONCE: Final = 12
_SHORTEST_KEY: Final = 16
_HINT: Final = "Set BUS_SECRET_KEY as it was, or the former key as BUS_SECRET_KEY_OLD."


class SecretBox:
    """Seals with AES-256-GCM when there is a key, and only marks as plain when there is none.

    What was stored plain can be opened after a key was set; seal it again to protect it.

    Parameters
    ----------
    key
        ``BUS_SECRET_KEY``: random text of 16 characters or more (``openssl rand -base64 32``), or None.
    old
        ``BUS_SECRET_KEY_OLD``: the key before this one, which still opens what it sealed; or None.

    Raises
    ------
    ConfigurationError
        A key is too short, or the ``cryptography`` package is missing.
    """

    def __init__(self, key: str | None, old: str | None = None) -> None:
        self._cipher = _cipher("BUS_SECRET_KEY", key) if key is not None else None
        self._old = _cipher("BUS_SECRET_KEY_OLD", old) if old is not None else None

    def seal(self, secret: str) -> str:
        """Return what may be stored; another text each time when there is a key."""
        if self._cipher is None:
            return _PLAIN + secret
        nonce = os.urandom(_NONCE)
        return _SEALED + base64.b64encode(nonce + self._cipher.encrypt(nonce, secret.encode(), None)).decode()

    def open(self, stored: str) -> str:
        """Return the secret.

        Raises
        ------
        ConfigurationError
            It was sealed with another key, or is damaged.
        """
        if stored.startswith(_PLAIN):
            return stored.removeprefix(_PLAIN)
        ciphers = [cipher for cipher in (self._cipher, self._old) if cipher is not None]
        if not ciphers or not stored.startswith(_SEALED):
            raise ConfigurationError("A stored secret cannot be opened.", hint=_HINT)
        opened = (_decrypted(cipher, stored.removeprefix(_SEALED)) for cipher in ciphers)
        found = next((secret for secret in opened if secret is not None), None)
        if found is None:
            raise ConfigurationError("A stored secret was sealed with another key.", hint=_HINT)
        return found

    def is_current(self, stored: str) -> bool:
        """Whether it is sealed as `seal` would do it now, so that sealing again gains nothing."""
        if self._cipher is None:
            return stored.startswith(_PLAIN)
        return stored.startswith(_SEALED) and _decrypted(self._cipher, stored.removeprefix(_SEALED)) is not None


def _cipher(name: str, key: str) -> AESGCM:
    if len(key) < _SHORTEST_KEY:
        raise ConfigurationError(f"{name} has {len(key)} characters; it needs {_SHORTEST_KEY} or more.")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only with a key
    except ImportError as error:
        raise ConfigurationError(f"{name} needs the 'cryptography' package.") from error
    return AESGCM(hashlib.sha256(b"bus.security.secrets\0" + key.encode()).digest())


def _decrypted(cipher: AESGCM, text: str) -> str | None:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only with a key

    try:
        sealed = base64.b64decode(text, validate=True)
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None).decode()
    except (InvalidTag, ValueError):
        return None
