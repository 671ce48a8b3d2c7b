"""Authentication of an agent's callers."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from bus.agent.options import AgentOptions
from bus.http.hosts import is_loopback
from bus.http.problem import Problem, problem

_NO_PAGES: Final = "an agent takes messages from programs, not from pages in a browser; nothing of it was stored"


class Admission:
    """Lets in whoever is on this machine, and beyond loopback who shows the agent's own key.

    On loopback a key is not asked for, and one that is shown is not looked at; but a page in a browser on this machine
    is no caller: it could have any name lead here, which a foreign Host tells, or call loopback by its own name, which
    the browser tells by Origin or Sec-Fetch-Site.
    """

    def __init__(self, options: AgentOptions) -> None:
        self._key = b"" if options.is_loopback else f"Bearer {options.api_key}".encode()

    @property
    def asks_for_key(self) -> bool:
        """Whether messages are taken only with the key; how the agent is, anybody may know then, as of a receiver."""
        return bool(self._key)

    def refusal(self, headers: Mapping[bytes, bytes]) -> Problem | None:
        """Return why a request with these headers is refused, None when it is not."""
        if not self._key:
            if not is_loopback(headers.get(b"host")):
                return problem(403, "this agent answers on loopback names only", hint="http://127.0.0.1 or localhost")
            return problem(403, "this is a page's request", hint=_NO_PAGES) if _is_of_page(headers) else None
        shown = headers.get(b"authorization", b"")
        # The name of the scheme is not case-sensitive.
        if hmac.compare_digest(b"Bearer" + shown[len(b"Bearer") :], self._key) and shown[:6].lower() == b"bearer":
            return None
        return problem(401, "an agent that other machines reach wants its own key", hint="Authorization: Bearer KEY")


def _is_of_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser sends this for a page; what a person opens there themselves is ``none``."""
    return b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none"
