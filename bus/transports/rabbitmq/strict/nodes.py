"""The three nodes of a group together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from bus.errors import TransportError, TransportRefused
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.transports.rabbitmq.config import ClusterUrl, Host, Patience
from bus.transports.rabbitmq.session import Session
from bus.transports.rabbitmq.strict.node import Node
from bus.transports.rabbitmq.strict.topology import COPIES

_Found = TypeVar("_Found")


class Nodes:
    """All nodes of a group; parameters as those of ``Node``."""

    def __init__(
        self,
        group: str,
        url: ClusterUrl,
        missed: Callable[[Host], None],
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
    ) -> None:
        self._group = group
        self._nodes = [Node(group, url, host, missed, patience, clock, noise) for host in dict.fromkeys(url.hosts)]

    @property
    def are_whole(self) -> bool:
        """Whether there are three, and none is missed."""
        return len(self.sessions) == len(self._nodes) == COPIES

    @property
    def are_most(self) -> bool:
        """Whether there are enough nodes to determine the group's messages."""
        return len(self.sessions) > COPIES // 2

    @property
    def sessions(self) -> list[Session]:
        """The connections that are up."""
        found = (node.connection.session for node in self._nodes)
        return [session for session in found if session is not None]

    async def run(self) -> None:
        """Watch over all nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for node in self._nodes:
                group.create_task(node.run())

    async def reach(self) -> list[Session]:
        """Return a connection to each node; right after the start wait for the first attempts.

        Raises
        ------
        TransportUnavailable
            A node is unreachable.
        TransportRefused
            There are not three nodes, or one of them refuses us.
        """
        self._check()
        return _all_of(await asyncio.gather(*(node.connection.reach() for node in self._nodes), return_exceptions=True))

    async def ask(self) -> list[Session]:
        """Return a connection to each node once each has answered now, and is connected to the others.

        Raises as ``reach`` does; nodes that are apart count as unreachable.
        """
        self._check()
        sessions = _all_of(await asyncio.gather(*(node.ask() for node in self._nodes), return_exceptions=True))
        for one, other in zip(self._nodes, [*self._nodes[1:], self._nodes[0]], strict=True):
            await one.meet(other)
        return sessions

    async def reach_one(self) -> Session:
        """Return a connection to a node that answers; raises as ``reach`` does when there is none."""
        return next(iter(self.sessions), None) or next(iter(await self.reach()))

    def trouble(self) -> AnyText:
        """Return what is wrong with the first node that is unreachable; empty for nothing."""
        troubles = (node.connection.trouble for node in self._nodes)
        return next((trouble.said for trouble in troubles if trouble is not None), "")

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(node.connection.close() for node in self._nodes))

    def _check(self) -> None:
        if len(self._nodes) != COPIES:
            raise TransportRefused(
                localized(
                    "{name} has {count} nodes, and a group keeps {copies} copies",
                    name=self._group,
                    count=len(self._nodes),
                    copies=COPIES,
                ),
                hint=localized("name the three nodes of one cluster in its URL"),
            )


def _all_of(results: Iterable[_Found | BaseException]) -> list[_Found]:
    """Return what was found; raise errors that are not the network's first, then refusals, which are more specific."""
    found, errors = list[_Found](), list[BaseException]()
    for result in results:
        if isinstance(result, BaseException):
            errors.append(result)
        else:
            found.append(result)
    if errors:
        raise min(errors, key=_rank)
    return found


def _rank(error: BaseException) -> int:
    return 1 + (not isinstance(error, TransportRefused)) if isinstance(error, TransportError) else 0
