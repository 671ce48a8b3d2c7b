"""One cluster: a connection to publish and make queues on, another to consume on, and its state.

They are apart since a broker that is short of memory or disk stops reading from publishers, and with one
connection the acks that would help it would wait behind that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bus.async_helpers import lasting
from bus.errors import TransportError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.transports.rabbitmq.addresses import Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.consumer import RabbitmqConsumer
from bus.transports.rabbitmq.errors import answering
from bus.transports.rabbitmq.lag import LagWatch
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.probe import Probe
from bus.transports.rabbitmq.publisher import Publisher
from bus.transports.rabbitmq.session import Session
from bus.transports.rabbitmq.switching import Switch
from bus.transports.rabbitmq.topology import Topology, WantedBindings

_log = logging.getLogger(__name__)
_REFUSED_AGAIN: Final = 10.0


class Cluster:
    """Keeps one cluster's connections, queues and figures up, and reports its state to the switch.

    Parameters
    ----------
    name
        As ``conditions`` shows it.
    consumers
        Returns the consumers of this process.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self,
        name: str,
        url: ClusterUrl,
        wanted: WantedBindings,
        switch: Switch,
        consumers: Callable[[], Iterable[RabbitmqConsumer]],
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
    ) -> None:
        self.name = name
        self._patience = patience
        self._clock = clock
        self._switch = switch
        self._wanted = wanted
        addresses = Addresses(url.hosts, clock, noise, within=patience.connect)
        self.topology = Topology(name, wanted, patience)
        self.publishing = Connection(
            f"{name} (publishing)", url, addresses, patience, clock, noise, prepare=self._prepare, changed=self._turned
        )
        self.consuming = Connection(f"{name} (consuming)", url, addresses, patience, clock, noise)
        self.publisher = Publisher(name, self.publishing, self.topology, wanted, patience, clock)
        self.watch = LagWatch(name, self.consuming, self.topology, wanted, consumers, patience, clock)
        self._probe = Probe(name, patience.answer)

    async def run(self) -> None:
        """Keep it up until cancelled; its connections stay open then, until ``close``."""
        works = {
            "the connection to publish on": self.publishing.run,
            "the connection to consume on": self.consuming.run,
            "the watch over queues": self.watch.run,
            "the repair of queues": self._keep_complete,
            "the probe": self._keep_probing,
        }
        async with asyncio.TaskGroup() as group:
            for name, work in works.items():
                group.create_task(lasting(f"{name} of {self.name}", work, self._clock.sleep))

    async def make(self, lanes: Mapping[Lane, str]) -> None:
        """Make queues; durable when it returns. Raises ``TransportError``."""
        session = await self.publishing.reach()
        with answering(localized("making queues on {name}", name=self.name)):
            async with asyncio.timeout(2 * self._patience.answer):
                await self.topology.make(session, lanes)

    async def delete(self, lane: Lane) -> None:
        """Delete a queue with its messages. Raises ``TransportError``."""
        session = await self.publishing.reach()
        with answering(localized("deleting a queue on {name}", name=self.name)):
            async with asyncio.timeout(2 * self._patience.answer):
                await self.topology.delete(session, lane)

    def trouble(self) -> AnyText:
        """Return the cluster's error; empty when it is healthy."""
        troubles = (self.publishing.trouble, self.consuming.trouble, *self.topology.refused.values())
        found = [trouble.said for trouble in troubles if trouble is not None]
        found.append(self.publisher.trouble())
        return next((trouble for trouble in found if trouble), "")

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(self.publishing.close(), self.consuming.close())

    async def _prepare(self, session: Session) -> None:
        """Have everything in place before anybody publishes on a new connection, and see that it confirms."""
        await self.topology.make_all(session)
        await self._probe.ask(session)

    def _turned(self, is_up: bool) -> None:
        before = self._switch.active
        if is_up:
            self._switch.came(self.name, self._clock.monotonic())
        else:
            self._switch.went(self.name, self._clock.monotonic())
        if self._switch.active != before:
            _log.warning("publishing goes to %s, since %s is %s", self._switch.active, self.name, _state(is_up))

    async def _keep_complete(self) -> None:
        """Make missing queues again, and at intervals refused ones; delete queues that have to be removed."""
        tried_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._patience.repair_every)
            session, now = self.publishing.session, self._clock.monotonic()
            if session is None:
                continue
            is_due = bool(self.topology.refused) and now - tried_at > _REFUSED_AGAIN
            try:
                if self.topology.is_incomplete or is_due:
                    tried_at = now
                    await self.topology.complete(session)
                if self.topology.has_removals:
                    await self.topology.clear(session)
            except TransportError as error:
                _log.warning("%s; it is tried again", error)

    async def _keep_probing(self) -> None:
        """Give a connection up on which nothing is confirmed any more, sooner than heartbeats do."""
        while True:
            session = await self.publishing.up()
            await self._clock.sleep(self._patience.probe_every)
            if session.lost.is_set():
                continue
            try:
                await self._probe.ask(session)
            except TransportError as error:
                session.abort(str(error))


def _state(is_up: bool) -> str:
    return "there" if is_up else "away"
