"""All nsqds of the transport, and the messages that they hold together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from bus.async_helpers import lasting
from bus.domain.health.progress import Progress
from bus.localized_text import AnyText, localized
from bus.ports.transport import HeldMessages, Lag
from bus.transports.nsq.config import Address, NsqdAddress
from bus.transports.nsq.lag import ChannelDepths, ChannelWindows
from bus.transports.nsq.lookup import Lookup
from bus.transports.nsq.node import Dependencies, Nsqd
from bus.transports.nsq.protocol.http import ChannelStats
from bus.transports.nsq.topology import Lane

_EAGER: Final = 1.0
_JITTER: Final = 0.2


class Cluster:
    """The nsqds of the settings, or else all that the nsqlookupds list; and others that have one of our topics.

    One that was found stays as long as its connection does, whatever the nsqlookupds say.

    Parameters
    ----------
    changed
        Called when nsqds, or their topics, may have come or gone.
    told
        Called with the figures of nsqds of the fork.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        changed: Callable[[], None],
        told: Callable[[Address, ChannelDepths], None],
    ) -> None:
        self._dependencies = dependencies
        self._config = dependencies.config
        self._changed = changed
        self._told = told
        self._lookup = Lookup(dependencies.config.lookupd, dependencies.http)
        self._nodes: dict[Address, Nsqd] = {}
        self._led: dict[Address, Mapping[str, AbstractSet[int]]] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._asked = asyncio.Event()
        self._windows = ChannelWindows()

    async def run(self) -> None:
        """Keep every nsqd connected and look for others, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                self.review()
                while self._config.lookupd:
                    await self._lookup.poll()
                    self.review()
                    self._changed()  # an nsqd that was known before may have a new topic
                    self._asked.set()
                    await self._dependencies.clock.sleep(self._pause())
                self._asked.set()
                await asyncio.Event().wait()
            finally:
                self._group = None
                self._tasks.clear()
                self._nodes.clear()
                self._led.clear()

    @property
    def nodes(self) -> list[Nsqd]:
        """All of them."""
        return list(self._nodes.values())

    def homes(self) -> list[Nsqd]:
        """Return those to publish to."""
        return [node for node in self._nodes.values() if node.home]

    def holders(self, topic: str) -> set[Address]:
        """Return those that a consumer of a topic reads from: they have it, as an nsqlookupd or they themselves say.

        Not those that keep partitions, which are read one by one.
        """
        found = self._lookup.nodes
        return {
            address
            for address, node in self._nodes.items()
            if not node.is_fork
            and (node.home or node.has(topic) or (address in found and topic in found[address].topics))
        }

    def led(self, address: Address, topic: str) -> AbstractSet[int]:
        """Return the partitions of a topic that an nsqd leads, as it said last."""
        return self._led.get(address, {}).get(topic, frozenset())

    def may_lead(self, address: Address) -> bool:
        """Whether an nsqd leads partitions, or may do so since no nsqlookupd has been asked about it yet."""
        found = self._lookup.nodes.get(address)
        return found.is_fork if found is not None else not self._asked.is_set()

    async def settled(self) -> None:
        """Wait until every nsqd was tried once, for the length of one time-out at most."""
        try:
            async with asyncio.timeout(self._config.timeout):
                await self._asked.wait()
                for node in self.nodes:
                    await node.tried.wait()
        except TimeoutError:
            return

    async def forget(self, lane: Lane) -> None:
        """Delete a channel from the nsqlookupds."""
        await self._lookup.forget(lane)

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the messages of each demanded channel on the nsqds that answer; None when none answers."""
        answering = [readings for node in self._nodes.values() if (readings := node.readings())]
        if not answering:
            return None
        return {(lane.topic, lane.channel): self._lag(lane, answering) for lane in self._dependencies.topology}

    def progress(self) -> dict[tuple[str, str], Progress]:
        """Return how each demanded channel is read."""
        newest = {str(address): found[-1] for address, node in self._nodes.items() if (found := node.readings())}
        looked = self._windows.look(self._dependencies.topology, newest, self._dependencies.clock.now())
        return {(lane.topic, lane.channel): found for lane, found in looked.items()}

    def held(self) -> dict[tuple[str, str], HeldMessages]:
        """Return the messages of the demanded channels on nsqds that are not of the fork."""
        newest = [found[-1] for node in self._nodes.values() if (found := node.readings())]
        return {
            (lane.topic, lane.channel): _together(
                reading.channels[lane] for reading in newest if lane in reading.channels
            )
            for lane in self._dependencies.topology
        }

    def all_led(self, topic: str) -> set[int]:
        """Return the partitions of a topic that some nsqd which answers says it leads and takes messages for."""
        newest = [readings[-1] for node in self._nodes.values() if (readings := node.readings())]
        return {number for reading in newest for number in reading.led.get(topic, ())}

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each server."""
        found: dict[str, AnyText] = {f"nsqd {address}": node.trouble for address, node in self._nodes.items()}
        if not found:
            found["nsqd"] = localized("none is known")
        return found | {f"nsqlookupd {address}": trouble for address, trouble in self._lookup.troubles.items()}

    def review(self) -> None:
        """Take in nsqds that are wanted, and let go those that are neither wanted nor connected.

        One that is being tried for the first time stays until that has an end: it may be a connection soon.
        """
        wanted = self._wanted()
        before = set(self._nodes)
        for address in before - wanted.keys():
            node = self._nodes[address]
            if (node.tried.is_set() and not node.connected) or address in self._aliases():
                self._drop(address)
        for address, (told, home) in wanted.items():
            found = self._lookup.nodes.get(address)
            is_fork = found is not None and found.is_fork
            if address in self._nodes and self._nodes[address].is_fork is not is_fork and found is not None:
                self._drop(address)
            if address not in self._nodes:
                self._add(told, home=home and not is_fork, is_fork=is_fork)
        if before != set(self._nodes):
            self._changed()

    def _wanted(self) -> dict[Address, tuple[NsqdAddress, bool]]:
        wanted = {told.tcp: (told, True) for told in self._config.nsqd}
        alone = not wanted
        aliases = self._aliases()
        for address, found in self._lookup.nodes.items():
            if (
                address not in wanted
                and address not in aliases
                and (alone or found.topics & self._dependencies.topology.topics)
            ):
                wanted[address] = (NsqdAddress(address, found.http), alone)
        return wanted

    def _aliases(self) -> set[Address]:
        """Return the names under which nsqlookupds list nsqds that the settings name otherwise."""
        told = {address.tcp for address in self._config.nsqd}
        announced = {node.announced for address, node in self._nodes.items() if address in told}
        return {address for address in announced if address is not None} - told

    def _add(self, address: NsqdAddress, *, home: bool, is_fork: bool) -> None:
        if self._group is None:
            return
        node = Nsqd(address, self._dependencies, home=home, is_fork=is_fork, find_http=self._find_http, told=self._hear)
        self._nodes[address.tcp] = node
        self._tasks[address.tcp] = self._group.create_task(
            lasting(f"watching nsqd {address.tcp}", node.run, self._dependencies.clock.sleep)
        )

    def _drop(self, address: Address) -> None:
        del self._nodes[address]
        self._led.pop(address, None)
        self._tasks.pop(address).cancel()

    def _hear(self, address: Address, reading: ChannelDepths) -> None:
        """Store the figures of an nsqd of the fork, and have consumers follow the partitions that it leads."""
        self._told(address, reading)
        if self._led.get(address) != reading.led:
            self._led[address] = reading.led
            self._changed()

    def _find_http(self, address: Address) -> int | None:
        found = self._lookup.nodes.get(address)
        return found.http if found is not None else None

    def _pause(self) -> float:
        pause = self._config.lookup_interval if self._nodes else min(_EAGER, self._config.lookup_interval)
        return pause * (1 + _JITTER * (self._dependencies.noise() - 0.5))

    def _lag(self, lane: Lane, answering: list[tuple[ChannelDepths, ...]]) -> Lag:
        records = sum(readings[-1].held.get(lane, 0) for readings in answering)
        # A message on its way from a queue to a consumer is in no figure for a moment, but not twice in a row.
        empty = all(
            len(readings) > 1 and not any(reading.held.get(lane, 0) for reading in readings) for readings in answering
        )
        oldest_figure = min(readings[0].asked for readings in answering)
        if self._dependencies.topology.published_since(lane.topic, oldest_figure):
            return Lag(max(records, 1), 0)
        return Lag(records, None) if empty else Lag(records, 0)


def _together(channels: Iterable[ChannelStats]) -> HeldMessages:
    found = HeldMessages()
    for one in channels:
        found = found.plus(HeldMessages(one.depth, one.in_flight_count, one.deferred_count))
    return found
