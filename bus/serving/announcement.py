"""The announcement of a process that is ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bus.bootstrap import Context
from bus.settings import Settings


class Announcement(NamedTuple):
    """Where a process serves: for programs, and in ``lines`` for people; ``open`` while no key was made."""

    url: str
    roles: Sequence[str]
    data: str
    open: bool
    lines: list[str]


def announcement(settings: Settings, roles: Sequence[str], url: str, context: Context) -> Announcement:
    """Return what a process with these roles says."""
    lines = [f"Pier serves on {url}" if len(roles) > 1 else f"Pier's {roles[0]} serves on {url}"]
    lines += [f"  messages  {url}/v1/messages/DESTINATION"] if "receiver" in roles else []
    lines += [f"  pages     {url}/admin", f"  admin     {url}/api/v1"] if "admin" in roles else []
    lines += [f"  lookups   {url}/lookup?topic=TOPIC"] if "lookup" in roles else []
    data = str(settings.data.absolute())
    lines.append(f"  data      {data}")
    if context.keyring.is_open:
        lines.append("  open      no key was made yet: whoever reaches this machine's loopback may do everything")
    if settings.is_loopback:
        lines.append("  egress    subscriber URLs on loopback are allowed, since this address is loopback")
    return Announcement(url, tuple(roles), data, context.keyring.is_open, lines)
