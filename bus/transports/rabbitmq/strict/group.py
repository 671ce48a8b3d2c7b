"""A group of three RabbitMQ nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from bus.async_helpers import lasting
from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.routing_pattern import matches
from bus.domain.subscription import Subscription
from bus.errors import TransportError, TransportRefused
from bus.localized_text import AnyText, joined
from bus.ports.broker_group import GroupStatus
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Lag
from bus.transports.rabbitmq.addresses import Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Host, Patience, check_limits
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.strict.data_marks import DataMarks
from bus.transports.rabbitmq.strict.figures import Figures
from bus.transports.rabbitmq.strict.nodes import Nodes
from bus.transports.rabbitmq.strict.reader import RabbitmqGroupReader
from bus.transports.rabbitmq.strict.survey import Survey
from bus.transports.rabbitmq.strict.topology import StrictTopology
from bus.transports.rabbitmq.strict.writer import RabbitmqGroupWriter

_log = logging.getLogger(__name__)
PATIENCE: Final = Patience(heartbeat=3)
"""A reader whose process stands still is replaced after two to three heartbeats."""


class RabbitmqGroup:
    """Three nodes of one cluster, with a quorum queue for each subscription, of which each node has a copy.

    What two copies have is confirmed, and with two of them everything can be read to the end; with one that is left
    everything waits until a second is back. A writer takes nothing more once a node is missed. Writers before it are
    not shut out: RabbitMQ cannot do that, and messages carry their epoch.

    Parameters
    ----------
    url
        Names each of the three nodes.
    quarantine
        Takes what lies in our queues and is no message of the bus.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self,
        name: str,
        url: ClusterUrl,
        quarantine: Quarantine,
        clock: Clock,
        noise: Callable[[], float],
        patience: Patience = PATIENCE,
    ) -> None:
        self._name = name
        self._quarantine = quarantine
        self._clock = clock
        self._noise = noise
        self._patience = patience
        self._patterns: dict[str, dict[str, str]] = {}
        self._readers: set[RabbitmqGroupReader] = set()
        self._losses = 0
        self._unmarked: dict[str, AnyText] = {}
        self._nodes = Nodes(name, url, self._missed, patience, clock, noise)
        self._addresses = Addresses(url.hosts, clock, noise, within=patience.connect)
        # Apart from the nodes' own, since a broker that is short of memory stops reading from publishers.
        self._reading = Connection(f"{name} (reading)", url, self._addresses, patience, clock, noise)
        self._topology = StrictTopology(name, patience.answer)
        self._survey = Survey(name, self._nodes, self._topology, within=patience.answer)
        self._marks = DataMarks(name, self._nodes, within=patience.answer)
        self._figures = Figures(self._nodes, self._topology, self._lanes, lambda: self._readers, patience, clock)

    @property
    def name(self) -> str:
        """The group's name in chains."""
        return self._name

    def check(self, destination: Destination) -> None:
        """Refuse a size that brokers do not take by default."""
        check_limits(destination)

    async def run(self) -> None:
        """Keep connections and figures up until cancelled; the connections stay open then, until ``close``."""
        works = {
            "the nodes": self._nodes.run,
            "the connection to read on": self._reading.run,
            "the watch over queues": self._figures.run,
        }
        async with asyncio.TaskGroup() as group:
            for name, work in works.items():
                group.create_task(lasting(f"{name} of {self._name}", work, self._clock.sleep))

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the exchange and the queues, with a copy on each node, for which all three must answer.

        Raises
        ------
        TransportUnavailable
            A node is unreachable, or not connected to the others; call again.
        TransportRefused
            The URL does not name three nodes, credentials are wrong, or something with other settings has the name.
        """
        session, *_ = await self._nodes.ask()
        patterns = {found.name: found.routing_pattern for found in subscriptions}
        await self._topology.make(session, destination.code, patterns)
        self._patterns.setdefault(destination.code, {}).update(patterns)

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue, with its messages."""
        self._patterns.get(destination, {}).pop(subscription, None)
        await self._topology.delete(await self._nodes.reach_one(), Lane(destination, subscription))

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        """Ask all three nodes and every queue; see ``Survey`` for the method."""
        return await self._survey.standing([Lane(destination, name) for name in subscriptions])

    async def mark(self, destination: str, known: str = "") -> str:
        """Return the known mark, or make an exchange with a unique name as the mark of this data."""
        self._unmarked.pop(destination, None)
        if known:
            return known
        try:
            return await self._marks.make(destination)
        except TransportError as error:
            _log.info("%s", error)
            if isinstance(error, TransportRefused):
                self._unmarked[destination] = error.said
            return ""

    async def has_mark(self, destination: str, mark: str) -> bool | None:
        """Ask the nodes for that exchange."""
        try:
            return await self._marks.has(destination, mark)
        except TransportError as error:
            _log.info("%s", error)
            return None

    async def writer(self, destination: str) -> RabbitmqGroupWriter:
        """Return a writer; raises as ``ensure`` does."""
        losses = self._losses
        session, *_ = await self._nodes.reach()
        channel = await session.channel(within=self._patience.answer, confirms=True)

        def is_whole() -> bool:
            return self._nodes.are_whole and self._losses == losses

        return RabbitmqGroupWriter(session, channel, destination, is_whole, self._is_wanted, self._patience)

    async def reader(self, destination: str, subscription: str) -> RabbitmqGroupReader:
        """Return a reader, which is the active one once those before it are closed."""
        lane, left = Lane(destination, subscription), self._readers.discard
        reader = RabbitmqGroupReader(
            self._name, lane, self._reading, self._quarantine, left, self._patience, self._clock, self._noise
        )
        self._readers.add(reader)
        return reader

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the waiting messages; of unacked ones only those of this process's readers are seen."""
        return self._figures.lags()

    def condition(self) -> AnyText:
        """Return which node is unreachable, and why; or that marks are refused, and why."""
        return self._nodes.trouble() or joined(self._unmarked.values())

    async def close(self) -> None:
        """Leave all queues and close all connections."""
        await asyncio.gather(*(reader.close() for reader in list(self._readers)))
        await asyncio.gather(self._nodes.close(), self._reading.close())

    def _lanes(self) -> list[Lane]:
        return [Lane(code, name) for code, patterns in self._patterns.items() for name in patterns]

    def _is_wanted(self, message: Message) -> bool:
        """Whether a message must not come back; that of a destination that was not ensured here never may."""
        patterns = self._patterns.get(message.destination)
        return patterns is None or any(matches(pattern, message.routing_key) for pattern in patterns.values())

    def _missed(self, host: Host) -> None:
        """Read on another node than one that does not answer, without waiting for missing heartbeats."""
        self._losses += 1
        session = self._reading.session
        if session is not None and (session.address.name, session.address.port) == host:
            self._addresses.failed(session.address)
            session.abort("its node does not answer")
