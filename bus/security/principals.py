"""Principals: the identity behind a request, and its rights."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import AccessDenied
from bus.localized_text import LocalizedText, localized
from bus.security.keys import Role, allows


class Principal(NamedTuple):
    """Who makes a request; ``id`` tells two of one name apart, ``kind`` is ``key``, ``user`` or ``open``.

    ``rate`` is how many messages a second it may send to each receiver, None for no limit; ``burst`` how many at once.
    """

    id: str
    name: str
    roles: tuple[str, ...]
    destinations: tuple[str, ...]
    kind: str = "key"
    rate: float | None = None
    burst: int | None = None

    def may(self, action: str, destination: str | None) -> bool:
        """Whether this may do that to a destination; None for what concerns them all."""
        return _allows(self.roles, self.destinations, action, destination)

    def require(self, action: str, destination: str | None) -> None:
        """Raise ``AccessDenied`` (403) unless this may do that."""
        if not self.may(action, destination):
            raise AccessDenied(self._refusal(action, destination), hint=self._hint(action))

    def require_somewhere(self, action: str) -> None:
        """Raise ``AccessDenied`` (403) unless this may do that to one destination at least."""
        if not self.may_somewhere(action):
            raise AccessDenied(self._refusal(action, None), hint=self._hint(action))

    def may_somewhere(self, action: str) -> bool:
        """Whether this may do that to one destination at least."""
        return _allows(self.roles, (), action, None)

    def _refusal(self, action: str, destination: str | None) -> LocalizedText:
        if destination:
            return localized(
                "{name} may not {action} on {destination}", name=self.name, action=action, destination=repr(destination)
            )
        return localized("{name} may not {action}", name=self.name, action=action)

    def _hint(self, action: str) -> LocalizedText:
        if self.destinations and self.may_somewhere(action):
            destinations = ", ".join(self.destinations)
            return localized(
                "it is limited to {destinations}: name one, or ask an admin for another key", destinations=destinations
            )
        return localized("ask an admin for a key with that role")


_allows = lru_cache(maxsize=4096)(allows)
ANYONE: Final = Principal("anyone", "anyone", (Role.ADMIN,), (), "open")


class Identity(NamedTuple):
    """Who logged in: ``subject`` is the provider's own name for them, which never changes hands."""

    name: str
    subject: str
    role: Role
    destinations: tuple[str, ...]
