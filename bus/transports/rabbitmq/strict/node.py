"""One node of a group: its connection shows whether it answers, and whether it is in a cluster with the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiormq.exceptions import ChannelLockedResource

from bus.async_helpers import lasting
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.transports.rabbitmq.addresses import Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Host, Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.errors import QueueMissing
from bus.transports.rabbitmq.probe import Probe
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.names import own_queue


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
        self._name = name = f"{group} ({host.name}:{host.port})"
        self._probe = Probe(name, patience.answer)
        self._within = patience.answer
        self._badge = ""
        addresses = Addresses((host,), clock, noise, within=patience.connect)
        self.connection = Connection(
            name, url, addresses, patience, clock, noise, prepare=self._prepare, changed=self._turned
        )

    async def run(self) -> None:
        """Keep the connection up, and cut it when nothing is confirmed on it, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, work in (("the connection to", self.connection.run), ("the probe of", self._keep_probing)):
                group.create_task(lasting(f"{name} {self._name}", work, self._clock.sleep))

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

    async def meet(self, other: Node) -> None:
        """Check that another node sees the queues on this one.

        Raises
        ------
        TransportUnavailable
            It does not: they are apart, or nodes of two clusters; or one of them does not answer.
        """
        session = await self.connection.reach()
        try:
            await self._ask_for_badge(await other.connection.reach())
        except QueueMissing as error:
            # Nodes that took this one for gone forgot what belongs to its connections, and learn of that of new ones.
            session.abort(str(error))
            raise TransportUnavailable(
                localized("{one} and {other} are apart, or of two clusters", one=self._name, other=other._name)
            ) from error

    async def _ask_for_badge(self, session: Session) -> None:
        async def ask(channel: Channel) -> None:
            with suppress(ChannelLockedResource):  # the queue is there, and another connection owns it
                await channel.raw.queue_declare(queue=self._badge, passive=True)

        channel = await session.channel(within=self._within)
        try:
            await session.call(localized("asking for {name}", name=self._name), ask(channel), within=self._within)
        finally:
            await channel.close()

    async def _prepare(self, session: Session) -> None:
        """See that it confirms, and have a queue on it that is this connection's alone."""
        await self._probe.ask(session)
        channel, self._badge = await session.channel(within=self._within), own_queue()
        try:
            greeting = channel.raw.queue_declare(queue=self._badge, exclusive=True)
            await session.call(localized("greeting {name}", name=self._name), greeting, within=self._within)
        finally:
            await channel.close()

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
