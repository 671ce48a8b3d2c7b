"""Who may call an agent."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from bus.agent.options import AgentOptions
from bus.http.hosts import is_loopback
from bus.http.problem import Problem, problem


class Admission:
    """Lets in whoever is on this machine, and beyond loopback who shows the agent's own key.

    On loopback a key is not asked for, and one that is shown is not looked at; but a foreign Host is refused, since a
    page in a browser could have any name lead here.
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
            if is_loopback(headers.get(b"host")):
                return None
            return problem(403, "this agent answers on loopback names only", hint="http://127.0.0.1 or localhost")
        shown = headers.get(b"authorization", b"")
        # The name of the scheme is not case-sensitive.
        if hmac.compare_digest(b"Bearer" + shown[len(b"Bearer") :], self._key) and shown[:6].lower() == b"bearer":
            return None
        return problem(401, "an agent that other machines reach wants its own key", hint="Authorization: Bearer KEY")
