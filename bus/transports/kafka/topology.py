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
from bus.localized_text import AnyText, localized
from bus.transports.kafka.commits import ANYWHERE, Commit
from bus.transports.kafka.config import KafkaConfig, milliseconds
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import describe, translated
from bus.transports.kafka.names import group_of, topic_of
from bus.transports.kafka.protocol.metadata import Layout, layout_of
from bus.transports.kafka.protocol.requests import (
    EARLIEST,
    LATEST,
    commit_from_outside,
    committed,
    create_topic,
    offsets,
    set_topic_settings,
    topic_settings,
)
from bus.transports.kafka.publisher import Topic

_log = logging.getLogger(__name__)
_HEADROOM: Final = 65_536
"""For a message's headers and the frame of its batch."""
_COPIES: Final = 3
_BACKOFF: Final = 0.1
_LARGEST: Final = "max.message.bytes"
_CLEANUP: Final = "cleanup.policy"


@dataclass
class EnsuredDestination:
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
    trouble: AnyText = ""
    doubts: int = 0
    topic_id: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_made(self) -> bool:
        """Whether everything that is wanted of it is there."""
        return self.topic is not None and self.subscriptions.keys() <= self.started

    def doubt(self, trouble: AnyText = "") -> None:
        """Publish nothing until it was looked at again."""
        self.doubts += 1
        self.topic = None
        self.started.clear()
        self.trouble = trouble


class Topology:
    """Makes topics, and subscriptions' starts (their groups' first commits), also again when a cluster lost them.

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
        self._ensured: dict[str, EnsuredDestination] = {}

    def __iter__(self) -> Iterator[EnsuredDestination]:
        """Every destination with a subscription."""
        return iter(list(self._ensured.values()))

    def get(self, code: str) -> EnsuredDestination | None:
        """Return a destination that has a subscription."""
        return self._ensured.get(code)

    def want(self, destination: Destination, subscriptions: Sequence[Subscription]) -> EnsuredDestination | None:
        """Take note of what has to be there from now on; None when that is nothing."""
        ensured = self._ensured.get(destination.code)
        if ensured is None:
            if not subscriptions:
                return None
            name = topic_of(destination.code, self._config.prefix)
            ensured = self._ensured[destination.code] = EnsuredDestination(destination, name)
        if destination.max_bytes > ensured.destination.max_bytes:
            ensured.topic = None
        ensured.destination = destination
        ensured.subscriptions |= {subscription.name: subscription for subscription in subscriptions}
        return ensured

    def forget(self, code: str, subscription: str) -> None:
        """Stop making a subscription's start; without any, the destination is forgotten."""
        ensured = self._ensured.get(code)
        if ensured is None:
            return
        ensured.subscriptions.pop(subscription, None)
        ensured.started.discard(subscription)
        ensured.known.discard(subscription)
        if not ensured.subscriptions:
            del self._ensured[code]

    def doubt(self) -> None:
        """Check everything again, since the cluster was down and may have been wiped."""
        for ensured in self._ensured.values():
            ensured.doubt()

    def see(self, found: dict[str, Layout]) -> None:
        """Take note of which topics there are, and which partitions have a leader."""
        for ensured in self._ensured.values():
            layout = found.get(ensured.name)
            if ensured.topic is None:
                continue
            if layout is None:
                ensured.doubt(localized("its topic is gone"))
            elif self._is_another(ensured, layout):
                ensured.doubt(localized("its topic was deleted and made anew"))
            else:
                if len(layout.leaders) != ensured.topic.partitions:
                    self._join_again(ensured)
                ensured.topic = _topic(ensured.name, layout, ensured.topic.max_bytes)

    async def make(self, ensured: EnsuredDestination) -> None:
        """Make the topic and the start of each subscription, unless they are there.

        Raises
        ------
        TransportUnavailable
            The cluster does not answer, or not in time.
        TransportRefused
            It refuses, or the topic has settings with which messages would be lost.
        """
        async with ensured.lock:
            try:
                with translated(localized("making destination {destination}", destination=ensured.destination.code)):
                    await self._make_in_time(ensured)
            except TransportError as error:
                ensured.trouble = error.said
                raise
            ensured.trouble = ""

    async def _make_in_time(self, ensured: EnsuredDestination) -> None:
        """Try again while the cluster only asks for a moment, as it does of a topic that is new."""
        last: Exception = TimeoutError()
        try:
            async with asyncio.timeout(self._config.ensure_timeout):
                while True:
                    try:
                        return await self._make(ensured)
                    except kafka.KafkaError as error:
                        if not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(_BACKOFF)
        except TimeoutError:
            raise last from None

    async def _make(self, ensured: EnsuredDestination) -> None:
        doubts = ensured.doubts
        layout = await self._layout(ensured)
        if self._is_another(ensured, layout):
            ensured.topic = None
            ensured.started.clear()
        largest = ensured.topic.max_bytes if ensured.topic is not None else await self._suited(ensured)
        for subscription in list(ensured.subscriptions.values()):
            if subscription.name not in ensured.started:
                await self._start(ensured, layout, subscription)
        if ensured.doubts != doubts:
            ensured.started.clear()
            raise kafka.KafkaConnectionError("the cluster went away meanwhile")
        ensured.topic = _topic(ensured.name, layout, largest)

    async def _layout(self, ensured: EnsuredDestination) -> Layout:
        """Return the topic's layout once each partition has a leader; makes the topic first when there is none."""
        found = await layout_of(self._cluster, ensured.name)
        if found is None:
            await self._create(ensured)
        while found is None or None in found.leaders.values():
            await asyncio.sleep(_BACKOFF)
            found = await layout_of(self._cluster, ensured.name)
        return found

    def _is_another(self, ensured: EnsuredDestination, layout: Layout) -> bool:
        """Whether the topic is another one of the same name than before; then commits mean nothing any more."""
        before, ensured.topic_id = ensured.topic_id, layout.id
        if not before or before == layout.id:
            return False
        _log.warning("kafka: topic %s was made anew; it is read from its beginning", ensured.name)
        self._join_again(ensured)
        return True

    def _join_again(self, ensured: EnsuredDestination) -> None:
        for subscription in ensured.subscriptions:
            self._on_change(ensured.destination.code, subscription)

    async def _create(self, ensured: EnsuredDestination) -> None:
        config = self._config
        settings = {
            _LARGEST: str(self._largest(ensured)),
            _CLEANUP: "delete",
            "retention.ms": str(milliseconds(config.retention)),
            **config.topic_settings,
        }
        if config.min_insync_replicas is not None:
            settings["min.insync.replicas"] = str(config.min_insync_replicas)
        replication = config.replication or min(_COPIES, len(self._cluster.nodes()))
        try:
            await create_topic(self._cluster, ensured.name, config.partitions, replication, settings)
        except kafka.InvalidReplicationFactorError as error:
            if config.replication is not None:
                raise
            # Brokers that were just started, or wiped, have not all joined yet.
            raise TransportUnavailable(
                localized("kafka: making topic {name}: {error}", name=ensured.name, error=describe(error))
            ) from error
        _log.info("kafka: made topic %s with %d partitions", ensured.name, config.partitions)

    async def _suited(self, ensured: EnsuredDestination) -> int:
        """Return the largest batch that the topic takes, raised first when it is too small.

        Raises
        ------
        TransportRefused
            It drops messages of its own accord, or its limit cannot be raised.
        """
        settings = await topic_settings(self._cluster, ensured.name)
        needed = self._largest(ensured)
        if not settings.keys() >= {_CLEANUP, _LARGEST}:
            return needed  # it has no such settings; what it does not take then comes back from publishing
        if "compact" in settings[_CLEANUP].value:
            raise TransportRefused(
                localized(
                    "kafka: topic {name} of destination {code} has {cleanup}={value}, which keeps only "
                    "the last message of a key; nothing was published to it",
                    name=ensured.name,
                    code=ensured.destination.code,
                    cleanup=_CLEANUP,
                    value=settings[_CLEANUP].value,
                ),
                hint=localized("set {cleanup}=delete on the topic, or take another destination code", cleanup=_CLEANUP),
            )
        present = int(settings[_LARGEST].value)
        if present >= needed:
            return present
        own = {name: setting.value for name, setting in settings.items() if setting.own}
        try:
            await set_topic_settings(self._cluster, ensured.name, own | {_LARGEST: str(needed)})
        except kafka.KafkaError as error:
            raise TransportRefused(
                localized(
                    "kafka: topic {name} takes {present} bytes, destination {code} needs {needed}, and "
                    "the broker does not let the bus change it: {error}",
                    name=ensured.name,
                    present=present,
                    code=ensured.destination.code,
                    needed=needed,
                    error=describe(error),
                ),
                hint=localized("set {largest}={needed} on the topic", largest=_LARGEST, needed=needed),
            ) from error
        _log.warning("kafka: raised %s of topic %s from %d to %d", _LARGEST, ensured.name, present, needed)
        return needed

    def _largest(self, ensured: EnsuredDestination) -> int:
        return max(ensured.destination.max_bytes, self._config.batch_bytes) + _HEADROOM

    async def _start(self, ensured: EnsuredDestination, layout: Layout, subscription: Subscription) -> None:
        """Fix where a subscription begins, unless it has begun."""
        group = group_of(ensured.name, subscription.name)
        while True:
            # First the end, then whether it has begun: so that of two who start it at the same time neither puts
            # the start behind what the other has let be published.
            ends = (await offsets(self._cluster, {ensured.name: layout}, LATEST))[ensured.name]
            if await committed(self._cluster, group, ensured.name, layout):
                break  # a partition without a commit is one that was added, and is read from its beginning
            lost = subscription.name in ensured.known
            starts = await self._starts(ensured.name, layout, subscription, ends, lost=lost)
            if starts.keys() != layout.leaders.keys():
                raise kafka.LeaderNotAvailableError(ensured.name)
            if lost:
                _log.warning("kafka: group %s has lost its commits; it begins with what the topic still has", group)
                self._on_change(ensured.destination.code, subscription.name)
            reach = ANYWHERE if lost else 0
            commits = {partition: Commit(offset, reach, topic=layout.id) for partition, offset in starts.items()}
            if await commit_from_outside(self._cluster, group, ensured.name, commits):
                break
            await asyncio.sleep(_BACKOFF)  # it has members, who set it themselves
        if subscription.name in ensured.subscriptions:
            ensured.started.add(subscription.name)
            ensured.known.add(subscription.name)

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
