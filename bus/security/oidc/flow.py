"""One login under way, known by the browser alone: nothing is stored until it has succeeded."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import Final, NamedTuple

LASTS: Final = 600_000  # ms
HOME: Final = "/admin"
_TOKEN_BYTES: Final = 32
_TOKEN_CHARACTERS: Final = 43
_LONGEST_PLACE: Final = 2000


class Flow(NamedTuple):
    """A login that a browser began; state, nonce and PKCE's verifier follow from a random token in its cookie.

    Attributes
    ----------
    begun_at
        In ms; a login is to end within ten minutes.
    place
        The path on this bus where the browser goes afterwards.
    """

    token: str
    begun_at: int
    place: str

    @classmethod
    def begin(cls, now: int, place: str | None) -> Flow:
        """Return a new login; a place that is not a path of this very host becomes the pages' first one."""
        return cls(secrets.token_urlsafe(_TOKEN_BYTES), now, place if place and is_local(place) else HOME)

    @classmethod
    def of(cls, cookie: str | None, state: str | None, now: int) -> Flow | None:
        """Return the login of a cookie; None unless it has this state and began within the time that is allowed."""
        found = _parsed(cookie or "")
        if (
            found is None
            or not state
            or not hmac.compare_digest(found.state.encode(), state.encode("utf-8", "replace"))
        ):
            return None
        return found if 0 <= now - found.begun_at <= LASTS else None

    @property
    def cookie(self) -> str:
        """What the browser keeps."""
        return f"{self.token}.{self.begun_at}.{base64.urlsafe_b64encode(self.place.encode()).decode().rstrip('=')}"

    @property
    def state(self) -> str:
        """What comes back with the code; other times or places make another one."""
        return self._derived(f"state {self.begun_at} {self.place}")

    @property
    def nonce(self) -> str:
        """What the provider puts into the token that it makes for this login."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """PKCE's secret: who intercepts the code cannot use it."""
        return self._derived("verifier")

    def _derived(self, what: str) -> str:
        return hmac.digest(self.token.encode(), what.encode(), "sha256").hex()


def is_local(place: str) -> bool:
    """Whether a place is a path of this host, however a browser reads it."""
    printable = place.isascii() and place.isprintable() and " " not in place and "\\" not in place
    return printable and len(place) <= _LONGEST_PLACE and place.startswith("/") and not place.startswith("//")


def _parsed(cookie: str) -> Flow | None:
    token, _, rest = cookie.partition(".")
    begun, _, place = rest.partition(".")
    if len(token) != _TOKEN_CHARACTERS or not token.isascii() or not begun.isdecimal() or not begun.isascii():
        return None
    try:
        path = base64.b64decode(place + "=" * (-len(place) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return Flow(token, int(begun[:20]), path) if is_local(path) else None
