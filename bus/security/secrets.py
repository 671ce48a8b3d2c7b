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
_HINT: Final = "Set BUS_SECRET_KEY as it was."


class SecretBox:
    """Seals with AES-256-GCM when there is a key, and only marks as plain when there is none.

    What was stored plain can be opened after a key was set; seal it again to protect it.

    Parameters
    ----------
    key
        ``BUS_SECRET_KEY``: random text of 16 characters or more (``openssl rand -base64 32``), or None.

    Raises
    ------
    ConfigurationError
        The key is too short, or the ``cryptography`` package is missing.
    """

    def __init__(self, key: str | None) -> None:
        self._cipher: AESGCM | None = None
        if key is None:
            return
        if len(key) < _SHORTEST_KEY:
            raise ConfigurationError(f"BUS_SECRET_KEY has {len(key)} characters; it needs {_SHORTEST_KEY} or more.")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only with a key
        except ImportError as error:
            raise ConfigurationError("BUS_SECRET_KEY needs the 'cryptography' package.") from error
        self._cipher = AESGCM(hashlib.sha256(b"bus.security.secrets\0" + key.encode()).digest())

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
        if self._cipher is None or not stored.startswith(_SEALED):
            raise ConfigurationError("A stored secret cannot be opened.", hint=_HINT)
        return _decrypt(self._cipher, stored.removeprefix(_SEALED))


def _decrypt(cipher: AESGCM, text: str) -> str:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only with a key

    try:
        sealed = base64.b64decode(text, validate=True)
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None).decode()
    except (InvalidTag, ValueError) as error:
        raise ConfigurationError("A stored secret was sealed with another key.", hint=_HINT) from error
