"""Who somebody is that another system has let in."""

from __future__ import annotations

from typing import NamedTuple

from bus.security.keys import Role


class Identity(NamedTuple):
    """Who logged in: ``subject`` is the provider's own name for them, which never changes hands."""

    name: str
    subject: str
    role: Role
    destinations: tuple[str, ...]
