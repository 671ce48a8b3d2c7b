"""The destinations that were ensured here: their topics, and where each subscription begins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiokafka import errors as kafka

from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.transports.kafka.cluster import Cluster
from bus.transports.kafka.commits import ANYWHERE, Commit
from bus.transports.kafka.config import KafkaConfig, milliseconds
from bus.transports.kafka.errors import describe, translated
from bus.transports.kafka.metadata import Layout, layout_of
from bus.transports.kafka.names import group_of, topic_of
from bus.transports.kafka.publisher import Topic
from bus.transports.kafka.requests import (
    EARLIEST,
    LATEST,
    commit_from_outside,
    committed,
    create_topic,
    offsets,
    set_topic_settings,
    topic_settings,
)

_log = logging.getLogger(__name__)
_HEADROOM: Final = 65_536
"""For a message's headers and the frame of its batch."""
_COPIES: Final = 3
_BACKOFF: Final = 0.1
_LARGEST: Final = "max.message.bytes"
_CLEANUP: Final = "cleanup.policy"


@dataclass
class Place:
    """One destination on this transport.

    Attributes
    ----------
    topic
        Where to publish; None until the topic was seen to be as it should and to hold what is published for every
        subscription, and when that is in doubt again.
    started
        Subscriptions seen to have a start since the topic was last in doubt.
    known
        Subscriptions that had a start at any time since this process began.
    trouble
        Why it is not made, in words; empty when it is.
    doubts
        How often it was in doubt.
    topic_id
        Of the topic that was last seen; empty when none was, or when the brokers are too old to say.
    """

    destination: Destination
    name: str
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    topic: Topic | None = None
    started: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    trouble: str = ""
    doubts: int = 0
    topic_id: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_made(self) -> bool:
        """Whether everything that is wanted of it is there."""
        return self.topic is not None and self.subscriptions.keys() <= self.started

    def doubt(self, trouble: str = "") -> None:
        """Publish nothing until it was looked at again."""
        self.doubts += 1
        self.topic = None
        self.started.clear()
        self.trouble = trouble


class Places:
    """Makes topics and starts, and makes them again when a cluster lost them.

    Parameters
    ----------
    on_change
        Called with a destination and a subscription whose group has to be joined again: the cluster lost its commits,
        the topic has more partitions, or it is another one than it was.
    """

    def __init__(self, cluster: Cluster, config: KafkaConfig, on_change: Callable[[str, str], None]) -> None:
        self._cluster = cluster
        self._config = config
        self._on_change = on_change
        self._places: dict[str, Place] = {}

    def __iter__(self) -> Iterator[Place]:
        """Every destination with a subscription."""
        return iter(list(self._places.values()))

    def get(self, code: str) -> Place | None:
        """Return a destination that has a subscription."""
        return self._places.get(code)

    def want(self, destination: Destination, subscriptions: Sequence[Subscription]) -> Place | None:
        """Take note of what has to be there from now on; None when that is nothing."""
        place = self._places.get(destination.code)
        if place is None:
            if not subscriptions:
                return None
            name = topic_of(destination.code, self._config.prefix)
            place = self._places[destination.code] = Place(destination, name)
        if destination.max_bytes > place.destination.max_bytes:
            place.topic = None
        place.destination = destination
        place.subscriptions |= {subscription.name: subscription for subscription in subscriptions}
        return place

    def forget(self, code: str, subscription: str) -> None:
        """Stop making a subscription's start; without any, the destination is forgotten."""
        place = self._places.get(code)
        if place is None:
            return
        place.subscriptions.pop(subscription, None)
        place.started.discard(subscription)
        place.known.discard(subscription)
        if not place.subscriptions:
            del self._places[code]

    def doubt(self) -> None:
        """Look at everything again, since the cluster was away and may have been wiped."""
        for place in self._places.values():
            place.doubt()

    def see(self, found: dict[str, Layout]) -> None:
        """Take note of which topics there are, and which partitions have a leader."""
        for place in self._places.values():
            layout = found.get(place.name)
            if place.topic is None:
                continue
            if layout is None:
                place.doubt("its topic is gone")
            elif self._is_another(place, layout):
                place.doubt("its topic was deleted and made anew")
            else:
                if len(layout.leaders) != place.topic.partitions:
                    self._join_again(place)
                place.topic = _topic(place.name, layout, place.topic.max_bytes)

    async def make(self, place: Place) -> None:
        """Make the topic and the start of each subscription, unless they are there.

        Raises
        ------
        TransportUnavailable
            The cluster does not answer, or not in time.
        TransportRefused
            It refuses, or the topic has settings that do not do.
        """
        async with place.lock:
            try:
                with translated(f"making destination {place.destination.code}"):
                    await self._make_in_time(place)
            except TransportError as error:
                place.trouble = str(error)
                raise
            place.trouble = ""

    async def _make_in_time(self, place: Place) -> None:
        """Try again while the cluster only asks for a moment, as it does of a topic that is new."""
        last: Exception = TimeoutError()
        try:
            async with asyncio.timeout(self._config.ensure_timeout):
                while True:
                    try:
                        return await self._make(place)
                    except kafka.KafkaError as error:
                        if not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(_BACKOFF)
        except TimeoutError:
            raise last from None

    async def _make(self, place: Place) -> None:
        doubts = place.doubts
        layout = await self._layout(place)
        if self._is_another(place, layout):
            place.topic = None
            place.started.clear()
        largest = place.topic.max_bytes if place.topic is not None else await self._suited(place)
        for subscription in list(place.subscriptions.values()):
            if subscription.name not in place.started:
                await self._start(place, layout, subscription)
        if place.doubts != doubts:
            place.started.clear()
            raise kafka.KafkaConnectionError("the cluster went away meanwhile")
        place.topic = _topic(place.name, layout, largest)

    # --- topics ----------------------------------------------------------------------------------------------

    async def _layout(self, place: Place) -> Layout:
        """Return the topic's layout once each partition has a leader; makes the topic first when there is none."""
        found = await layout_of(self._cluster, place.name)
        if found is None:
            await self._create(place)
        while found is None or None in found.leaders.values():
            await asyncio.sleep(_BACKOFF)
            found = await layout_of(self._cluster, place.name)
        return found

    def _is_another(self, place: Place, layout: Layout) -> bool:
        """Whether the topic is another one of the same name than before; then nobody knows where consumers are."""
        before, place.topic_id = place.topic_id, layout.id
        if not before or before == layout.id:
            return False
        _log.warning("kafka: topic %s was made anew; it is read from its beginning", place.name)
        self._join_again(place)
        return True

    def _join_again(self, place: Place) -> None:
        for subscription in place.subscriptions:
            self._on_change(place.destination.code, subscription)

    async def _create(self, place: Place) -> None:
        config = self._config
        settings = {
            _LARGEST: str(self._largest(place)),
            _CLEANUP: "delete",
            "retention.ms": str(milliseconds(config.retention)),
        }
        if config.min_insync_replicas is not None:
            settings["min.insync.replicas"] = str(config.min_insync_replicas)
        replication = config.replication or min(_COPIES, len(self._cluster.nodes()))
        try:
            await create_topic(self._cluster, place.name, config.partitions, replication, settings)
        except kafka.InvalidReplicationFactorError as error:
            if config.replication is not None:
                raise
            # Brokers that were just started, or wiped, have not all joined yet.
            raise TransportUnavailable(f"kafka: making topic {place.name}: {describe(error)}") from error
        _log.info("kafka: made topic %s with %d partitions", place.name, config.partitions)

    async def _suited(self, place: Place) -> int:
        """Return the largest batch that the topic takes, raised first when it is too small.

        Raises
        ------
        TransportRefused
            It drops messages of its own accord, or its limit cannot be raised.
        """
        settings = await topic_settings(self._cluster, place.name)
        needed = self._largest(place)
        if not settings.keys() >= {_CLEANUP, _LARGEST}:
            return needed  # it has no such settings; what it does not take then comes back from publishing
        if "compact" in settings[_CLEANUP].value:
            raise TransportRefused(
                f"kafka: topic {place.name} of destination {place.destination.code} has {_CLEANUP}="
                f"{settings[_CLEANUP].value}, which keeps only the last message of a key; nothing was published to it",
                hint=f"set {_CLEANUP}=delete on the topic, or take another destination code",
            )
        present = int(settings[_LARGEST].value)
        if present >= needed:
            return present
        own = {name: setting.value for name, setting in settings.items() if setting.own}
        try:
            await set_topic_settings(self._cluster, place.name, own | {_LARGEST: str(needed)})
        except kafka.KafkaError as error:
            raise TransportRefused(
                f"kafka: topic {place.name} takes {present} bytes, destination {place.destination.code} needs "
                f"{needed}, and the broker does not let the bus change it: {describe(error)}",
                hint=f"set {_LARGEST}={needed} on the topic",
            ) from error
        _log.warning("kafka: raised %s of topic %s from %d to %d", _LARGEST, place.name, present, needed)
        return needed

    def _largest(self, place: Place) -> int:
        return max(place.destination.max_bytes, self._config.batch_bytes) + _HEADROOM

    # --- starts ----------------------------------------------------------------------------------------------

    async def _start(self, place: Place, layout: Layout, subscription: Subscription) -> None:
        """Fix where a subscription begins, unless it has begun."""
        group = group_of(place.name, subscription.name)
        while True:
            # First the end, then whether it has begun: so that of two who start it at the same time neither puts
            # the start behind what the other has let be published.
            ends = (await offsets(self._cluster, {place.name: layout}, LATEST))[place.name]
            if await committed(self._cluster, group, place.name, layout):
                break  # a partition without a commit is one that was added, and is read from its beginning
            lost = subscription.name in place.known
            starts = await self._starts(place.name, layout, subscription, ends, lost=lost)
            if starts.keys() != layout.leaders.keys():
                raise kafka.LeaderNotAvailableError(place.name)
            if lost:
                _log.warning("kafka: group %s has lost its commits; it begins with what the topic still has", group)
                self._on_change(place.destination.code, subscription.name)
            reach = ANYWHERE if lost else 0
            commits = {partition: Commit(offset, reach, topic=layout.id) for partition, offset in starts.items()}
            if await commit_from_outside(self._cluster, group, place.name, commits):
                break
            await asyncio.sleep(_BACKOFF)  # it has members, who set it themselves
        if subscription.name in place.subscriptions:
            place.started.add(subscription.name)
            place.known.add(subscription.name)

    async def _starts(
        self,
        topic: str,
        layout: Layout,
        subscription: Subscription,
        ends: dict[int, int],
        *,
        lost: bool,
    ) -> dict[int, int]:
        """Return where a subscription begins in each partition: one whose commits were lost, at the beginning."""
        if lost:
            return (await offsets(self._cluster, {topic: layout}, EARLIEST))[topic]
        if subscription.start_at:
            return ends | (await offsets(self._cluster, {topic: layout}, subscription.start_at))[topic]
        return ends


def _topic(name: str, layout: Layout, max_bytes: int) -> Topic:
    led = tuple(sorted(partition for partition, leader in layout.leaders.items() if leader is not None))
    return Topic(name, len(layout.leaders), led, max_bytes)
