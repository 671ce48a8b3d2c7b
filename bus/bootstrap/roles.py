"""Roles: how they are found and combined in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Final, Protocol

from bus.bootstrap.context import Context
from bus.bootstrap.feeding import FeedService
from bus.bootstrap.role_services import RoleServices
from bus.errors import ConfigurationError

ROLES: Final = ("dispatcher", "receiver", "compensator", "admin", "alarms")
"""The roles of a whole bus, each after those whose offers it takes."""


class Service(Protocol):
    """A role at work in one process."""

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Set ``ready`` once it works; return after ``stopping`` when what it began is finished."""
        ...

    @property
    def offers(self) -> RoleServices:
        """What it has for the rest of the process."""
        ...


class Role(Protocol):
    """An entry point of the group ``bus.roles``."""

    def __call__(self, context: Context, offered: RoleServices) -> Service:
        """Make the role's service; ``offered`` is what those before it in ``ROLES`` offer."""
        ...


def load_roles(names: Sequence[str]) -> list[Role]:
    """Load roles by name, in the order of ``compose``; raises ``ConfigurationError`` for one that is not installed."""
    found = {entry.name: entry for entry in entry_points(group="bus.roles")}
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigurationError(f"unknown role {missing[0]!r}; there are: {', '.join(sorted(found))}")
    in_order = sorted(names, key=lambda name: ROLES.index(name) if name in ROLES else -1)
    return [found[name].load() for name in in_order]


def compose(context: Context, roles: Sequence[Role], offered: RoleServices) -> tuple[list[Service], RoleServices]:
    """Make the services of a process, each with what was offered before it, and return what they offer together.

    The first one feeds the store from the spools, where there are any: what the others leave is written until the end.
    """
    services: list[Service] = []
    for role in [*([FeedService] if context.spools else []), *roles]:
        services.append(role(context, offered))
        offered |= services[-1].offers
    return services, offered
