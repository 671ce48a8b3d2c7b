"""From what a provider says of a person to who they are on this bus and what they may do; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping as Claims
from typing import Any, Final, NamedTuple

from bus.domain.message import check_destination
from bus.errors import AccessDenied, InvalidDestination
from bus.security.keys import Role
from bus.security.principals import Identity

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,128}")
_HIGHEST_FIRST: Final = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
_ANYBODY: Final = "*"
_MOST_DESTINATIONS: Final = 1000


class Mapping(NamedTuple):
    """Which claims say what.

    Attributes
    ----------
    name, role, destinations
        Claims; a dot goes into an object (``realm_access.roles``). Without a claim for destinations nobody is limited.
    roles
        The values of the role's claim that give each role; ``*`` for everybody.
    """

    name: str
    role: str
    roles: dict[Role, frozenset[str]]
    destinations: str = ""

    def identity(self, issuer: str, claims: Claims[str, Any]) -> Identity:
        """Return who somebody is.

        Raises
        ------
        AccessDenied
            403: they have no name that this bus can use, no role, or no destination.
        """
        name = _claim(claims, self.name)
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise AccessDenied(
                f"the claim {self.name!r} is not a name of at most 128 of a-z A-Z 0-9 . _ @ -",
                hint="ask an admin of the bus to choose another claim: BUS_OIDC_NAME_CLAIM",
            )
        return Identity(name, subject_of(issuer, claims), *self._rights(name, claims))

    def _rights(self, name: str, claims: Claims[str, Any]) -> tuple[Role, tuple[str, ...]]:
        values = {*_values(_claim(claims, self.role)), _ANYBODY}
        role = next((role for role in _HIGHEST_FIRST if values & self.roles.get(role, frozenset())), None)
        if role is None:
            raise AccessDenied(
                f"{name} has logged in at the provider, and nothing in the claim {self.role!r} gives a role here",
                hint="ask for a group that has one, or an admin of the bus to add one to BUS_OIDC_ROLES",
            )
        if role is Role.ADMIN or not self.destinations:
            return role, ()
        codes = tuple(code for code in _values(_claim(claims, self.destinations)) if _is_code(code))
        if not codes or len(codes) > _MOST_DESTINATIONS:
            raise AccessDenied(
                f"{name} has the role {role.value}, and the claim {self.destinations!r} names no destination, or over"
                f" {_MOST_DESTINATIONS}",
                hint="ask who runs the provider for the destinations that you need",
            )
        return role, codes


def subject_of(issuer: str, claims: Claims[str, Any]) -> str:
    """Return what tells one person from all others of all providers."""
    return f"{issuer} {claims['sub']}"


def parse_roles(text: str) -> dict[Role, frozenset[str]]:
    """Return what ``admin=GROUP,GROUP; viewer=*`` says; raises ``ValueError``."""
    found: dict[Role, frozenset[str]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        role, _, values = part.partition("=")
        groups = frozenset(filter(None, map(str.strip, values.split(","))))
        if role.strip() not in _HIGHEST_FIRST or not groups:
            raise ValueError(f"{part!r} is not admin, operator or viewer = GROUP,GROUP")
        found[Role(role.strip())] = groups
    return found


def _claim(claims: Claims[str, Any], path: str) -> Any:
    """Return a claim; a name with dots may be the claim's own."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _values(claim: Any) -> list[str]:
    if isinstance(claim, str):
        return claim.replace(",", " ").split()
    return [value for value in claim if isinstance(value, str)] if isinstance(claim, list) else []


def _is_code(value: str) -> bool:
    try:
        check_destination(value)
    except InvalidDestination:
        return False
    return True
