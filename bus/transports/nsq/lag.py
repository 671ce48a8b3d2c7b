"""What an nsqd holds, as it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from bus.transports.nsq.protocol.http import TopicStats
from bus.transports.nsq.topology import Lane


class Reading(NamedTuple):
    """Figures of one moment: when they were asked for (monotonic), and the messages of each channel."""

    asked: float
    held: Mapping[Lane, int]
    topics: Mapping[str, AbstractSet[str]]


def reading_of(stats: Sequence[TopicStats], asked: float) -> Reading:
    """Return an nsqd's figures: what waits in a topic will be in each of its channels."""
    held = {
        Lane(topic.topic_name, channel.channel_name): topic.depth
        + channel.depth
        + channel.in_flight_count
        + channel.deferred_count
        for topic in stats
        for channel in topic.channels
    }
    topics = {topic.topic_name: {channel.channel_name for channel in topic.channels} for topic in stats}
    return Reading(asked, held, topics)
