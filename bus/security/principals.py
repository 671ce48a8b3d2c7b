"""Who makes a request, and what they may do."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import AccessDenied
from bus.security.keys import Role, allows


class Principal(NamedTuple):
    """Who makes a request; ``id`` tells two of one name apart, ``kind`` is ``key``, ``user`` or ``open``."""

    id: str
    name: str
    roles: tuple[str, ...]
    destinations: tuple[str, ...]
    kind: str = "key"

    def may(self, action: str, destination: str | None) -> bool:
        """Whether this may do that to a destination; None for what concerns them all."""
        return _allows(self.roles, self.destinations, action, destination)

    def require(self, action: str, destination: str | None) -> None:
        """Raise ``AccessDenied`` (403) unless this may do that."""
        if not self.may(action, destination):
            where = f" on {destination!r}" if destination else ""
            raise AccessDenied(f"{self.name} may not {action}{where}", hint=self._hint(action))

    def require_somewhere(self, action: str) -> None:
        """Raise ``AccessDenied`` (403) unless this may do that to one destination at least."""
        if not self.may_somewhere(action):
            raise AccessDenied(f"{self.name} may not {action}", hint=self._hint(action))

    def may_somewhere(self, action: str) -> bool:
        """Whether this may do that to one destination at least."""
        return _allows(self.roles, (), action, None)

    def _hint(self, action: str) -> str:
        if self.destinations and self.may_somewhere(action):
            return f"it is limited to {', '.join(self.destinations)}: name one, or ask an admin for another key"
        return "ask an admin for a key with that role"


_allows = lru_cache(maxsize=4096)(allows)
ANYONE: Final = Principal("anyone", "anyone", (Role.ADMIN,), (), "open")
