"""The channels of partitions, on the nsqds that lead them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from bus.localized_text import AnyText, text_of_error
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import NsqFault
from bus.transports.nsq.lag import ChannelDepths
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.directory import Directory
from bus.transports.nsq.partitions.layout import Layout, Place
from bus.transports.nsq.partitions.rounds import Rounds
from bus.transports.nsq.topology import Lane

_SIDE_BY_SIDE: Final = 16


class _KnownChannels(NamedTuple):
    """The channels of a partition, as the nsqd said that led it then, at a monotonic time."""

    place: Place
    channels: frozenset[str]
    at: float


class Channels:
    """Makes the demanded channels wherever a partition is led, and deletes those that are not wanted any more.

    Each nsqd is asked at its own pace, about all topics that are to be reviewed there at once.

    Parameters
    ----------
    layout
        Gives where a topic is.
    made
        Called with a topic that has a new channel.

    Attributes
    ----------
    troubles
        Why channels of a topic could not be made, by the nsqd.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        directory: Directory,
        layout: Callable[[str], Layout],
        made: Callable[[str], None],
    ) -> None:
        self._http = dependencies.http
        self._topology = dependencies.topology
        self._now = dependencies.clock.monotonic
        self._timeout = dependencies.config.timeout
        self._directory = directory
        self._layout = layout
        self._told = made
        self._rounds = Rounds(self._review_at)
        self._seen: dict[tuple[str, int], _KnownChannels] = {}
        self._registered: dict[str, set[str]] = {}
        self._removals: dict[Lane, set[int]] = {}
        self.troubles: dict[tuple[str, Place], AnyText] = {}

    async def run(self) -> None:
        """Do the pending reviews, until cancelled."""
        await self._rounds.run()

    @property
    def removing(self) -> set[str]:
        """Topics with channels that are still to be deleted."""
        return {lane.topic for lane in self._removals}

    def ready(self, topic: str, partition: int, place: Place) -> bool:
        """Whether messages published to a partition on this nsqd are held for all channels of the topic."""
        seen = self._seen.get((topic, partition))
        return seen is not None and seen.place == place and self._topology.channels(topic) <= seen.channels

    def recheck(self, topic: str, address: Address, reading: ChannelDepths) -> bool:
        """Drop the channels noted for a topic's partitions on an nsqd whose figures lack some of them now.

        Return whether some were missing: the topic was made anew, or a channel was deleted.
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

    def forget(self, topic: str) -> None:
        """Drop the state of a topic."""
        self._seen = {key: seen for key, seen in self._seen.items() if key[0] != topic}
        self.troubles = {key: text for key, text in self.troubles.items() if key[0] != topic}
        self._registered.pop(topic, None)

    def remove(self, lane: Lane) -> None:
        """Have a channel deleted in all partitions."""
        self._removals.setdefault(lane, set())

    def keep(self, lane: Lane) -> None:
        """Have a channel deleted no more."""
        self._removals.pop(lane, None)

    def review(self, topic: str) -> list[asyncio.Event]:
        """Have channels made and deleted on each leader of a topic's partitions; return an event for each leader.

        What could not be done is in ``troubles``, and done the next time.
        """
        places = set(self._leaders(topic))
        for gone in [key for key in self.troubles if key[0] == topic and key[1] not in places]:
            del self.troubles[gone]
        if topic not in self._topology.topics and topic not in self.removing:
            return []
        return self._rounds.want(topic, places)

    async def reviewed(self, topic: str) -> None:
        """Review a topic and wait until that is done, for one time-out at most."""
        ended = self.review(topic)
        try:
            async with asyncio.timeout(self._timeout):
                for one in ended:
                    await one.wait()
        except TimeoutError:
            return

    def _leaders(self, topic: str) -> dict[Place, set[int]]:
        """Return which partitions of a topic each nsqd leads."""
        layout = self._layout(topic)
        leaders: dict[Place, set[int]] = {}
        for number, place in {**layout.readable, **layout.writable}.items():
            leaders.setdefault(place, set()).add(number)
        return leaders

    async def _review_at(self, place: Place, topics: AbstractSet[str]) -> None:
        at = self._now()
        try:
            there = await self._there(place, topics)
        except NsqFault as fault:
            for topic in topics:
                self._note(topic, place, fault)
            return
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)
        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(self._review_topic(topic, place, there.get(topic, {}), at, turns))

    async def _review_topic(
        self, topic: str, place: Place, there: Mapping[int, set[str]], at: float, turns: asyncio.Semaphore
    ) -> None:
        try:
            async with turns:
                is_new = await self._make(topic, place, there, at)
                await self._register(topic, self._topology.channels(topic) - self._registered.get(topic, set()))
        except NsqFault as fault:
            self._note(topic, place, fault)
            return
        self.troubles.pop((topic, place), None)
        self._end_removals(topic)
        if is_new:
            self._told(topic)

    def _note(self, topic: str, place: Place, fault: NsqFault) -> None:
        """Note what went wrong, unless the topic is elsewhere or forgotten by now."""
        if place in self._leaders(topic):
            self.troubles[topic, place] = text_of_error(fault)

    async def _make(self, topic: str, place: Place, there: Mapping[int, set[str]], at: float) -> bool:
        """Make and delete channels of the partitions that an nsqd leads; whether one was made."""
        is_new = False
        for number in sorted(there.keys() & self._leaders(topic).get(place, set())):
            await self._delete(topic, place, number, there[number])
            missing = self._topology.channels(topic) - there[number]
            await self._register(topic, missing)
            for channel in missing:
                await self._http.create_channel(place.http, topic, number, channel)
            self._seen[topic, number] = _KnownChannels(
                place, frozenset(there[number] | missing), self._now() if missing else at
            )
            is_new = is_new or bool(missing)
        return is_new

    async def _register(self, topic: str, channels: AbstractSet[str]) -> None:
        """Register channels with nsqlookupd, where the topic accepts no others."""
        for channel in channels if self._layout(topic).is_closed else ():
            await self._directory.register(topic, channel)
            self._registered.setdefault(topic, set()).add(channel)

    async def _there(self, place: Place, topics: AbstractSet[str]) -> Mapping[str, Mapping[int, set[str]]]:
        """Return the channels of the partitions of topics that an nsqd has."""
        there: dict[str, dict[int, set[str]]] = {}
        for found in await self._http.stats(place.http, next(iter(topics)) if len(topics) == 1 else ""):
            if found.topic_name in topics and found.partition is not None:
                channels = {channel.channel_name for channel in found.channels}
                there.setdefault(found.topic_name, {})[found.partition] = channels
        return there

    def _end_removals(self, topic: str) -> None:
        for lane, done in list(self._removals.items()):
            if lane.topic == topic and done and done >= self._layout(topic).numbers:
                self.keep(lane)

    async def _delete(self, topic: str, place: Place, number: int, there: set[str]) -> None:
        for lane in [lane for lane in self._removals if lane.topic == topic]:
            if lane.channel in there:
                await self._http.delete_channel(place.http, topic, number, lane.channel)
                there.discard(lane.channel)
            if lane in self._removals:
                self._removals[lane].add(number)
