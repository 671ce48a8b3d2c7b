"""The three nodes of a group: a connection to each, which tells whether that node answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from bus.errors import TransportError, TransportRefused
from bus.ports.clock import Clock
from bus.sentences import Said, sentence
from bus.transports.rabbitmq.addresses import Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Host, Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.probe import Probe
from bus.transports.rabbitmq.session import Session
from bus.transports.rabbitmq.strict.topology import COPIES
from bus.waits import lasting

_log = logging.getLogger(__name__)
_Found = TypeVar("_Found")


class Node:
    """One node: it answers as long as its connection is up, which is cut when it confirms nothing any more.

    Parameters
    ----------
    group
        The group's name.
    missed
        Called when it does not answer any more.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self,
        group: str,
        url: ClusterUrl,
        host: Host,
        missed: Callable[[Host], None],
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
    ) -> None:
        self._host = host
        self._missed = missed
        self._every = patience.probe_every
        self._clock = clock
        name = f"{group} ({host.name}:{host.port})"
        self._probe = Probe(name, patience.answer)
        addresses = Addresses((host,), clock, noise, within=patience.connect)
        self.connection = Connection(
            name, url, addresses, patience, clock, noise, prepare=self._probe.ask, changed=self._turned
        )

    async def run(self) -> None:
        """Keep the connection up, and cut it when nothing is confirmed on it, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, work in (("the connection to", self.connection.run), ("the probe of", self._keep_probing)):
                group.create_task(lasting(f"{name} {self._host}", work, self._clock.sleep))

    async def ask(self) -> Session:
        """Return its connection once it has confirmed something now.

        Raises
        ------
        TransportError
            It does not answer.
        """
        session = await self.connection.reach()
        await self._probe.ask(session)
        return session

    async def _keep_probing(self) -> None:
        while True:
            session = await self.connection.up()
            await self._clock.sleep(self._every)
            try:
                await self._probe.ask(session)
            except TransportError as error:
                session.abort(str(error))

    def _turned(self, is_up: bool) -> None:
        if not is_up:
            self._missed(self._host)


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
        """Whether there are as many as it takes to know what the group holds."""
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
            A node is away.
        TransportRefused
            There are not three nodes, or one of them refuses us.
        """
        self._check()
        return _all_of(await asyncio.gather(*(node.connection.reach() for node in self._nodes), return_exceptions=True))

    async def ask(self) -> list[Session]:
        """Return a connection to each node once each has answered now; raises as ``reach`` does."""
        self._check()
        return _all_of(await asyncio.gather(*(node.ask() for node in self._nodes), return_exceptions=True))

    async def reach_one(self) -> Session:
        """Return a connection to a node that answers; raises as ``reach`` does when there is none."""
        return next(iter(self.sessions), None) or next(iter(await self.reach()))

    def trouble(self) -> Said:
        """Return what is wrong with the first node that is away; empty for nothing."""
        found = (node.connection.trouble for node in self._nodes)
        return next((trouble.said for trouble in found if trouble is not None), "")

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(node.connection.close() for node in self._nodes))

    def _check(self) -> None:
        if len(self._nodes) != COPIES:
            raise TransportRefused(
                sentence(
                    "{name} has {count} nodes, and a group keeps {copies} copies",
                    name=self._group,
                    count=len(self._nodes),
                    copies=COPIES,
                ),
                hint=sentence("name the three nodes of one cluster in its URL"),
            )


def _all_of(results: Iterable[_Found | BaseException]) -> list[_Found]:
    """Return what was found; raise what is not the network's first, then a refusal, since that tells more."""
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
    return isinstance(error, TransportError) + (
        isinstance(error, TransportError) and not isinstance(error, TransportRefused)
    )
