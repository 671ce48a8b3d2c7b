"""The receiver that owns an idempotency key."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import Final, Protocol

from bus.cluster.member import Member
from bus.domain.health.vitals import UnreachableProcess

UNREACHABLE: Final = "?"
_RECEIVER: Final = "receiver"


class ClusterMembers(Protocol):
    """The processes of the bus, as ``bus.cluster.members.Members`` has them."""

    @property
    def me(self) -> Member:
        """Return this process."""
        ...

    @property
    def others(self) -> Collection[Member]:
        """Return the others that are alive."""
        ...

    @property
    def unreachable(self) -> Collection[UnreachableProcess]:
        """Return those that cannot be reached."""
        ...


class KeyOwners:
    """Assigns each key to one receiver: that of the highest hash of both names.

    Source: D. Thaler and C. Ravishankar, "Using name-based mappings to increase hit rates", 1998 (rendezvous hashing).
    When a receiver joins or leaves, only its own keys change their owner. An unreachable receiver keeps its keys, since
    only its disk may have their first use; it is removed as ``Members.unreachable`` describes. Processes that share a
    port share what they accepted, and are one owner.
    """

    def __init__(self, members: ClusterMembers) -> None:
        self._members = members

    def owner(self, scope: str) -> str:
        """Return the process that accepts a key's messages; empty for this one, ``UNREACHABLE`` if none answers.

        Parameters
        ----------
        scope
            The name of the key, by `receiver.duplicates.scope_of`.
        """
        own, groups = self._members.me.sharer, self._groups()
        if not groups:
            return ""
        group = max([own, *groups], key=lambda name: _hash(scope, name))
        if group == own:
            return ""
        return max(groups[group], key=lambda name: _hash(scope, name), default=UNREACHABLE)

    def _groups(self) -> dict[str, list[str]]:
        """Return the other receivers that are alive, by the name that they share; none of one that is unreachable."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for member in self._members.others:
            if _RECEIVER in member.roles:
                groups[member.sharer].append(member.owner)
        for process in self._members.unreachable:
            if _RECEIVER in process.roles:
                groups.setdefault(process.sharer or process.owner, [])
        return groups

    @property
    def is_alone(self) -> bool:
        """Whether there is no receiver but those of this port, nor one that cannot be reached."""
        return not self._groups().keys() - {self._members.me.sharer}

    def member(self, owner: str) -> Member | None:
        """Return the process of this name; None if it is not alive."""
        return next((member for member in self._members.others if member.owner == owner), None)


def _hash(scope: str, name: str) -> bytes:
    return hashlib.blake2b(f"{scope} {name}".encode(), digest_size=8).digest()
