"""Channels that must exist, and the time since when each topic has had messages."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Lane(NamedTuple):
    """A subscription as NSQ sees it."""

    topic: str
    channel: str


class Topology:
    """The channels that were ensured here, and the time of the last publication to each topic."""

    def __init__(self) -> None:
        self._channels: dict[str, set[str]] = {}
        self._published: dict[str, float] = {}
        self._ordered: set[str] = set()
        self._traced: set[str] = set()

    def __iter__(self) -> Iterator[Lane]:
        return (Lane(topic, channel) for topic, channels in self._channels.items() for channel in channels)

    def __contains__(self, lane: Lane) -> bool:
        return lane.channel in self.channels(lane.topic)

    @property
    def topics(self) -> AbstractSet[str]:
        """Topics that have a channel."""
        return self._channels.keys()

    def channels(self, topic: str) -> AbstractSet[str]:
        """Return the channels that a topic must have."""
        return self._channels.get(topic, frozenset())

    def add(self, lane: Lane) -> None:
        """Demand a channel."""
        self._channels.setdefault(lane.topic, set()).add(lane.channel)

    def discard(self, lane: Lane) -> None:
        """Demand a channel no more."""
        channels = self._channels.get(lane.topic, set())
        channels.discard(lane.channel)
        if not channels:
            self._channels.pop(lane.topic, None)
            self._published.pop(lane.topic, None)

    def describe(self, topic: str, *, keeps_order: bool, is_traced: bool) -> None:
        """Note whether the messages of a topic are to be kept in order, and traced."""
        (self._ordered.add if keeps_order else self._ordered.discard)(topic)
        (self._traced.add if is_traced else self._traced.discard)(topic)

    def keeps_order(self, topic: str) -> bool:
        """Whether the messages of a topic are to be kept in order."""
        return topic in self._ordered

    def is_traced(self, topic: str) -> bool:
        """Whether the messages of a topic are to be traced."""
        return topic in self._traced

    def publishing(self, topic: str, now: float) -> None:
        """Note that messages may be on their way to a topic at this monotonic time."""
        self._published[topic] = now

    def published_since(self, topic: str, time: float) -> bool:
        """Whether figures taken at a monotonic time may lack messages that were published here."""
        return self._published.get(topic, -1.0) >= time
