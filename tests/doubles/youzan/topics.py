"""Topics with their partitions: who leads, who has a copy, what may be written and which channels there are."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.doubles.youzan.channel import Channel
from tests.doubles.youzan.log import Draft, Entry, Log
from tests.doubles.youzan.refusals import NOT_EXIST, NOT_LEADER, NOT_WRITABLE, Refused

_NAME = re.compile(r"[.a-zA-Z0-9_-]{1,64}(#ephemeral)?")


def valid_name(name: str) -> bool:
    """Whether a topic or channel may be called so."""
    return len(name) <= 64 and _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Meta:
    """What a topic was made with, as nsqlookupd tells of it."""

    partition_num: int
    replica: int = 1
    ordered: bool = False
    multi_part: bool = False
    extend_support: bool = False
    disable_channel_auto_create: bool = False


class Partition:
    """One partition, whose log and channels its nsqds share.

    Attributes
    ----------
    nodes
        Numbers of the nsqds that have a copy, the leader first.
    copies
        How many it was to have.
    writable
        Whether the leader takes messages.
    electing
        Whether the leader is gone and no other was named yet.
    lost
        The error that its nsqds answer with while it is lost; None when it is there.
    failing
        Whether writes break off for no reason that clients could know.
    unanswered
        To how many publishes the answer will be lost, behind the write.
    """

    def __init__(self, topic: str, number: int, nodes: Sequence[int]) -> None:
        self.topic = topic
        self.number = number
        self.nodes = list(nodes)
        self.copies = len(nodes)
        self.writable = True
        self.electing = False
        self.lost: str | None = None
        self.failing = False
        self.unanswered = 0
        self.log = Log(number)
        self.channels: dict[str, Channel] = {}

    @property
    def leader(self) -> int:
        """The number of the nsqd that leads."""
        return self.nodes[0]

    @property
    def registered(self) -> bool:
        """Whether lookups name its leader."""
        return self.lost is None and not self.electing

    def move(self, node: int) -> None:
        """Let another nsqd lead; the one that did keeps its copy."""
        self.nodes = [node, *(other for other in self.nodes if other != node)]
        self.electing = False

    def move_behind(self, node: int, count: int) -> None:
        """Let an nsqd lead whose copy lacks the last messages, and with them what channels knew beyond."""
        self.log.lose(count)
        for channel in self.channels.values():
            channel.seek(min(channel.confirmed, channel.total))
        self.move(node)

    def loses_answer(self) -> bool:
        """Whether the answer to a publish is lost; counts it."""
        if not self.unanswered:
            return False
        self.unanswered -= 1
        return True

    def check_copy(self, node: int) -> None:
        """Refuse on an nsqd that knows of no such partition."""
        if node not in self.nodes or self.lost == NOT_EXIST:
            raise Refused(NOT_EXIST, closes=True)

    def check_leader(self, node: int, *, closes: bool) -> None:
        """Refuse on an nsqd that does not lead; it depends on the command whether that costs the connection."""
        if self.leader != node or self.electing or self.lost == NOT_LEADER:
            raise Refused(NOT_LEADER, closes=closes)

    def publish(self, node: int, drafts: Iterable[Draft], timestamp: Callable[[], int] = time.time_ns) -> list[Entry]:
        """Write messages, all or none, on one of the nsqds.

        Raises
        ------
        Refused
            This one does not lead, or the partition takes no messages.
        """
        self.check_leader(node, closes=False)
        if not self.writable:
            raise Refused(NOT_WRITABLE, closes=False)
        if self.failing:
            raise Refused("E_PUB_FAILED", "write of the log failed", closes=False)
        return [self.log.append(draft, timestamp()) for draft in drafts]

    def channel(self, name: str) -> Channel:
        """Return a channel; a new one starts at the end of the log."""
        if name not in self.channels:
            self.channels[name] = Channel(name, self.log)
        return self.channels[name]

    def hand_out(self, now: float) -> None:
        """Send to consumers whatever may be sent."""
        for channel in self.channels.values():
            channel.hand_out(now)

    def expire(self, now: float) -> None:
        """Send again what timed out or was deferred long enough."""
        for channel in self.channels.values():
            if channel.expire(now):
                channel.hand_out(now)


class Topic:
    """A topic, its partitions by number and the channels that were registered for it."""

    def __init__(self, name: str, meta: Meta) -> None:
        self.name = name
        self.meta = meta
        self.partitions: dict[int, Partition] = {}
        self.registered: list[str] = []
        self.tombstones: set[int] = set()

    def on(self, node: int) -> list[Partition]:
        """Return the partitions of which an nsqd has a copy."""
        return [one for one in self.partitions.values() if node in one.nodes and one.lost != NOT_EXIST]

    def channels(self) -> list[str]:
        """Return the names of channels of all partitions."""
        return sorted({name for one in self.partitions.values() if one.registered for name in one.channels})

    def register(self, channel: str) -> None:
        """Make a channel in all partitions."""
        self.registered.append(channel)
        for partition in self.partitions.values():
            partition.channel(channel)


class Topics:
    """All topics of a cluster.

    Parameters
    ----------
    nodes
        The numbers of its nsqds.
    """

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = list(nodes)
        self._topics: dict[str, Topic] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._topics.values()))

    def find(self, name: str) -> Topic | None:
        """Return a topic, None when there is none."""
        return self._topics.get(name)

    def partition(self, name: str, number: int) -> Partition | None:
        """Return a partition, None when there is none."""
        topic = self._topics.get(name)
        return topic.partitions.get(number) if topic else None

    def partitions(self) -> list[Partition]:
        """Return those of all topics."""
        return [partition for topic in self._topics.values() for partition in topic.partitions.values()]

    def create(self, name: str, meta: Meta) -> Topic:
        """Make a topic; leaders go round the nsqds.

        Raises
        ------
        ValueError
            It is there, or there are fewer nsqds than copies.
        """
        if name in self._topics:
            raise ValueError("already exist")
        if meta.replica > len(self._nodes):
            raise ValueError("not enough nsqd nodes for the replicas")
        topic = self._topics[name] = Topic(name, replace(meta, partition_num=0))
        self.expand(name, meta.partition_num)
        return topic

    def expand(self, name: str, number: int) -> None:
        """Raise the number of partitions; the new ones have the registered channels only.

        Raises
        ------
        KeyError
            There is no such topic.
        ValueError
            It has more already.
        """
        topic = self._topics[name]
        if number < topic.meta.partition_num:
            raise ValueError("the partition number can only be increased")
        for new in range(topic.meta.partition_num, number):
            partition = topic.partitions[new] = Partition(name, new, self._placed(new, topic.meta.replica))
            for channel in topic.registered:
                partition.channel(channel)
        topic.meta = replace(topic.meta, partition_num=number)

    def delete(self, name: str) -> list[Partition]:
        """Remove a topic and return what its partitions were.

        Raises
        ------
        KeyError
            There is no such topic.
        """
        return list(self._topics.pop(name).partitions.values())

    def _placed(self, partition: int, copies: int) -> list[int]:
        return [self._nodes[(partition + copy) % len(self._nodes)] for copy in range(copies)]
