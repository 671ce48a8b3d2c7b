"""What an nsqd holds, as it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from bus.transports.nsq.protocol.http import ChannelStats, TopicStats
from bus.transports.nsq.topology import Lane


class Reading(NamedTuple):
    """Figures of one moment: when they were asked for (monotonic), and the messages of each channel.

    ``led`` has the partitions that an nsqd of the fork leads.
    """

    asked: float
    held: Mapping[Lane, int]
    topics: Mapping[str, AbstractSet[str]]
    led: Mapping[str, AbstractSet[int]] = {}


def reading_of(stats: Sequence[TopicStats], asked: float) -> Reading:
    """Return an nsqd's figures: what waits in a topic will be in each of its channels.

    A channel of the fork is a position in the log of a partition, and what is in flight or put off is not finished
    there: its depth is all. It is counted where the partition is led.
    """
    held: dict[Lane, int] = {}
    topics: dict[str, set[str]] = {}
    led: dict[str, set[int]] = {}
    for topic in stats:
        if topic.is_leader and topic.partition is not None:
            led.setdefault(topic.topic_name, set()).add(topic.partition)
        names = topics.setdefault(topic.topic_name, set())
        for channel in topic.channels:
            lane = Lane(topic.topic_name, channel.channel_name)
            names.add(channel.channel_name)
            held[lane] = held.get(lane, 0) + _held(topic, channel)
    return Reading(asked, held, topics, led)


def _held(topic: TopicStats, channel: ChannelStats) -> int:
    if topic.topic_partition:
        return channel.depth if topic.is_leader else 0
    return topic.depth + channel.depth + channel.in_flight_count + channel.deferred_count
