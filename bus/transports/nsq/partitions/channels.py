"""The channels of partitions, on the nsqds that lead them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from bus.sentences import Said, said_by
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import NsqFault
from bus.transports.nsq.lag import Reading
from bus.transports.nsq.partitions.directory import Directory
from bus.transports.nsq.partitions.layout import Layout, Place
from bus.transports.nsq.protocol.http import NsqHttp
from bus.transports.nsq.topology import Lane, Topology


class _Seen(NamedTuple):
    """The channels of a partition, as the nsqd said that led it then, at a monotonic time."""

    place: Place
    channels: frozenset[str]
    at: float


class Channels:
    """Makes the demanded channels wherever a partition is led, and deletes those that are not wanted any more.

    Attributes
    ----------
    troubles
        Why channels of a topic could not be made, by the nsqd.
    """

    def __init__(self, http: NsqHttp, topology: Topology, directory: Directory, now: Callable[[], float]) -> None:
        self._http = http
        self._topology = topology
        self._directory = directory
        self._now = now
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._removals: dict[Lane, set[int]] = {}
        self.troubles: dict[tuple[str, Place], Said] = {}

    @property
    def removing(self) -> set[str]:
        """Topics with channels that are still to be deleted."""
        return {lane.topic for lane in self._removals}

    def ready(self, topic: str, partition: int, place: Place) -> bool:
        """Whether what is published to a partition on this nsqd is held for all channels of the topic."""
        seen = self._seen.get((topic, partition))
        return seen is not None and seen.place == place and self._topology.channels(topic) <= seen.channels

    def recheck(self, topic: str, address: Address, reading: Reading) -> bool:
        """Forget what is known of a topic's partitions on an nsqd that says now that it lacks channels.

        Whether it was so: the topic was made anew, or somebody has deleted a channel.
        """
        there = reading.topics.get(topic, frozenset())
        if self._topology.channels(topic) <= there:
            return False
        gone = [
            key
            for key, seen in self._seen.items()
            if key[0] == topic and seen.place.tcp == address and seen.at < reading.asked
        ]
        for key in gone:
            del self._seen[key]
        return bool(gone)

    def remove(self, lane: Lane) -> None:
        """Have a channel deleted in all partitions."""
        self._removals.setdefault(lane, set())

    def keep(self, lane: Lane) -> None:
        """Have a channel deleted no more."""
        self._removals.pop(lane, None)

    async def review(self, topic: str, layout: Layout) -> bool:
        """Make and delete channels where the partitions of a topic are led; whether one was made.

        Never raises for the network: what could not be done is in ``troubles``, and done the next time.
        """
        if layout.is_closed:
            await self._register(topic)
        leaders: dict[Place, set[int]] = {}
        for number, place in {**layout.readable, **layout.writable}.items():
            leaders.setdefault(place, set()).add(number)
        for gone in [key for key in self.troubles if key[0] == topic and key[1] not in leaders]:
            del self.troubles[gone]
        made = await asyncio.gather(*(self._review_at(topic, place, led) for place, led in leaders.items()))
        for lane, done in list(self._removals.items()):
            if lane.topic == topic and done and done >= layout.numbers:
                self.keep(lane)
        return any(made)

    async def _review_at(self, topic: str, place: Place, numbers: Iterable[int]) -> bool:
        try:
            made = await self._make(topic, place, numbers)
        except NsqFault as fault:
            self.troubles[topic, place] = said_by(fault)
            return False
        self.troubles.pop((topic, place), None)
        return made

    async def _make(self, topic: str, place: Place, numbers: Iterable[int]) -> bool:
        at, there = self._now(), await self._there(topic, place)
        is_new = False
        for number in sorted(there.keys() & set(numbers)):
            await self._delete(topic, place, number, there[number])
            missing = self._topology.channels(topic) - there[number]
            for channel in missing:
                await self._http.create_channel(place.http, topic, number, channel)
            self._seen[topic, number] = _Seen(place, frozenset(there[number] | missing), self._now() if missing else at)
            is_new = is_new or bool(missing)
        return is_new

    async def _there(self, topic: str, place: Place) -> Mapping[int, set[str]]:
        """Return the channels of the partitions that an nsqd leads."""
        stats = await self._http.stats(place.http, topic)
        return {
            found.partition: {channel.channel_name for channel in found.channels}
            for found in stats
            if found.topic_name == topic and found.partition is not None
        }

    async def _delete(self, topic: str, place: Place, number: int, there: set[str]) -> None:
        for lane in [lane for lane in self._removals if lane.topic == topic]:
            if lane.channel in there:
                await self._http.delete_channel(place.http, topic, number, lane.channel)
                there.discard(lane.channel)
            if lane in self._removals:
                self._removals[lane].add(number)

    async def _register(self, topic: str) -> None:
        """Have nsqlookupd know the channels of a topic that takes no others; SUB says why it does not work."""
        for channel in self._topology.channels(topic):
            try:
                await self._directory.register(topic, channel)
            except NsqFault:
                return
