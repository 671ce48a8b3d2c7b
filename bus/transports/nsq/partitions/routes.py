"""Routes to the partitions of topics: looked up every interval, and at once when one has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from bus.domain.routing.rooms import Access
from bus.localized_text import AnyText, joined, localized
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import ConnectionLost
from bus.transports.nsq.lag import ChannelDepths
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.channels import Channels
from bus.transports.nsq.partitions.directory import Directory
from bus.transports.nsq.partitions.layout import Layout, Place, for_reading, for_writing
from bus.transports.nsq.partitions.order import disagreement
from bus.transports.nsq.topology import Lane

_EAGER: Final = 1.0
_JITTER: Final = 0.2
_SHORTEST: Final = 0.2
_MADE_WITHIN: Final = 0.1
_SIDE_BY_SIDE: Final = 16
_NOWHERE: Final = Layout()


class Routes:
    """Looks topics up for consumers and producers, and makes those that are nowhere.

    Parameters
    ----------
    read
        Gives the topics that have a consumer here.
    changed
        Called with a topic whose layout changed.
    """

    def __init__(
        self, dependencies: Dependencies, read: Callable[[], AbstractSet[str]], changed: Callable[[str], None]
    ) -> None:
        self._config = dependencies.config
        self._clock = dependencies.clock
        self._noise = dependencies.noise
        self._topology = dependencies.topology
        self._haste = dependencies.haste
        self._read = read
        self._changed = changed
        self._directory = Directory(dependencies.config.lookupd, dependencies.http, dependencies.clock)
        self.channels = Channels(dependencies, self._directory, self.layout, self._have_found)
        self._layouts: dict[str, Layout] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._parting: set[str] = set()
        self._asked = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    @property
    def has_partitions(self) -> bool:
        """Whether topics may have partitions, according to the nsqlookupds."""
        return self._directory.has_partitions

    def layout(self, topic: str) -> Layout:
        """Return the layout of a topic from the last good answers; an unknown topic has no partitions."""
        return self._layouts.get(topic, _NOWHERE)

    def open_partitions(self, topic: str) -> dict[int, Place]:
        """Return the partitions that take messages, and hold them for all channels."""
        writable = self.layout(topic).writable
        return {number: place for number, place in writable.items() if self.channels.ready(topic, number, place)}

    def take(self, address: Address, reading: ChannelDepths) -> None:
        """Store an nsqd's figures, and have a topic looked up whose channels are missing there."""
        for topic in self._topology.topics:
            if self.layout(topic).is_partitioned and self.channels.recheck(topic, address, reading):
                self._haste.add(topic)

    async def run(self) -> None:
        """Look up, and have channels made, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                group.create_task(self.channels.run())
                await self._look()
            finally:
                self._group = None

    async def _look(self) -> None:
        while self._config.lookupd:
            is_told = await self._directory.discover()
            self._asked.set()
            if self.has_partitions:
                await self._refresh(self._wanted())
            self._forget()
            await self._wait(self._config.lookup_interval if is_told else min(_EAGER, self._config.lookup_interval))

    async def prepare(self, topic: str) -> bool:
        """Make a topic and its demanded channels in partitions; False where topics have none.

        Raises
        ------
        NsqFault
            No partition takes messages yet.
        """
        if not self._config.lookupd or not await self._is_partitioned():
            return False
        is_told = await self.look_up(topic)
        if self.layout(topic).is_absent:
            await self._create(topic)
        elif self.layout(topic).is_partitioned:
            await self._have_channels(topic)
        if not self.layout(topic).is_partitioned:
            if not is_told and self._topology.keeps_order(topic):
                raise ConnectionLost(localized("no nsqlookupd says where topic {topic} is", topic=topic))
            return False
        if not self.open_partitions(topic):
            raise ConnectionLost(localized("no partition of topic {topic} takes messages", topic=topic))
        return True

    async def remove(self, lane: Lane) -> bool:
        """Delete a channel in all partitions, now or as soon as their nsqds are back; False where topics have none."""
        if not self.has_partitions:
            return False
        self.channels.remove(lane)
        await self.look_up(lane.topic)
        await self.channels.reviewed(lane.topic)
        layout = self.layout(lane.topic)
        if layout.is_partitioned:
            return True
        self.channels.keep(lane)
        return layout.is_absent

    async def look_up(self, topic: str) -> bool:
        """Look a topic up, and have its channels reviewed; return whether an nsqlookupd answered. Never raises.

        Looks up for writing as well when the topic is published to, or refused consumers for its requirements.
        """
        async with self._locks.setdefault(topic, asyncio.Lock()):
            if topic not in self._topology.topics and topic not in self._haste.demanding:
                is_told = await self._look_up_to_read(topic)
            else:
                is_told, _ = await asyncio.gather(self._look_up_to_read(topic), self._look_up_to_write(topic))
        self.channels.review(topic)
        return is_told

    def conditions(self, refusing: Mapping[str, Iterable[AnyText]]) -> dict[str, AnyText]:
        """Return what is wrong with nsqlookupds that were listed, and with the partitions of topics.

        Parameters
        ----------
        refusing
            What publishers met at partitions of a topic that take no messages, though they are said to.
        """
        found: dict[str, AnyText] = {f"nsqlookupd {one}": text for one, text in self._directory.troubles.items()}
        for topic in self._topology.topics:
            layout = self.layout(topic)
            closed = [_missing(layout)] if layout.missing else []
            if said := joined([*closed, *refusing.get(topic, ())]):
                found[f"nsq partitions of {topic}"] = said
            if dissent := disagreement(layout, keeps_order=self._topology.keeps_order(topic)):
                found[f"nsq order of {topic}"] = dissent
        return found | {
            f"nsqd {place.tcp} channels of {topic}": text for (topic, place), text in self.channels.troubles.items()
        }

    async def _is_partitioned(self) -> bool:
        """Whether topics may have partitions; waits until nsqlookupds were asked, for one time-out at most."""
        try:
            async with asyncio.timeout(self._config.timeout):
                await self._asked.wait()
        except TimeoutError:
            return False
        return self.has_partitions

    async def _create(self, topic: str) -> None:
        is_ordered = self._topology.keeps_order(topic)
        await self._directory.create(topic, self._config, is_ordered=is_ordered)
        try:
            async with asyncio.timeout(self._config.timeout):
                while not self.open_partitions(topic):
                    await self.look_up(topic)
                    await self._have_channels(topic)
                    await self._clock.sleep(_MADE_WITHIN)
        except TimeoutError:
            return

    async def _have_channels(self, topic: str) -> None:
        """Have the channels of a topic made, then find the partitions that are only listed once they have channels."""
        await self.channels.reviewed(topic)
        if self.layout(topic).missing or not self.layout(topic).writable:
            await self._look_up_again(topic)

    def _have_found(self, topic: str) -> None:
        """Have the partitions of a topic found that have a channel since just now."""
        if self._group is not None:
            self._group.create_task(self._look_up_again(topic))

    async def _look_up_again(self, topic: str) -> None:
        async with self._locks.setdefault(topic, asyncio.Lock()):
            await self._look_up_to_write(topic)

    def _forget(self) -> None:
        """Forget topics that were neither published to nor read here for two rounds, and have their connections closed.

        One that is about to be made has no channels yet.
        """
        unwanted = {*self._layouts, *self._locks} - self._wanted()
        for topic in unwanted & self._parting:
            self._layouts.pop(topic, None)
            self._locks.pop(topic, None)
            self.channels.forget(topic)
            self._haste.demanding.discard(topic)
            self._changed(topic)
        self._parting = unwanted - self._parting

    def _wanted(self) -> set[str]:
        return {*self._topology.topics, *self._read(), *self.channels.removing}

    async def _refresh(self, topics: Iterable[str]) -> None:
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def look_up(topic: str) -> None:
            async with turns:
                await self.look_up(topic)

        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(look_up(topic))

    async def _wait(self, pause: float) -> None:
        """Wait for the next round, and do urgent lookups meanwhile."""
        until = self._clock.monotonic() + pause * (1 + _JITTER * (self._noise() - 0.5))
        while (left := until - self._clock.monotonic()) > 0:
            topics = await self._haste.take(left)
            if topics and self.has_partitions:
                await self._refresh(topics & self._wanted())
                await self._clock.sleep(_SHORTEST)

    async def _look_up_to_read(self, topic: str) -> bool:
        answer = await self._directory.lookup(topic, Access.READ)
        if answer is not None:
            self._keep(topic, for_reading(self.layout(topic), answer))
        return answer is not None

    async def _look_up_to_write(self, topic: str) -> None:
        answer = await self._directory.lookup(topic, Access.WRITE)
        if answer is not None:
            self._keep(topic, for_writing(self.layout(topic), answer))

    def _keep(self, topic: str, layout: Layout) -> None:
        if layout != self.layout(topic):
            self._layouts[topic] = layout
            self._changed(topic)


def _missing(layout: Layout) -> AnyText:
    return localized(
        "{missing} of {count} partitions take no messages: {numbers}; messages of their keys wait. If this lasts "
        "although all nsqds run, start the one that was killed with -start-as-fix-mode=true (docs/nsq.md)",
        missing=len(layout.missing),
        count=layout.count,
        numbers=", ".join(map(str, layout.missing)),
    )
