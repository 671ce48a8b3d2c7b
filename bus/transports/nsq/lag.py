"""The depth of channels, as an nsqd reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from bus.domain.health.progress import Observation, Progress, Verdict, Windows
from bus.transports.nsq.protocol.http import ChannelStats, TopicStats
from bus.transports.nsq.topology import Lane


class ChannelDepths(NamedTuple):
    """Figures of one moment: when they were asked for (monotonic), and the messages of each channel.

    ``led`` has the partitions that an nsqd of the fork leads; ``channels`` has the other figures of a channel from an
    nsqd that is not of the fork.
    """

    asked: float
    held: Mapping[Lane, int]
    topics: Mapping[str, AbstractSet[str]]
    led: Mapping[str, AbstractSet[int]] = {}
    channels: Mapping[Lane, ChannelStats] = {}


def reading_of(stats: Sequence[TopicStats], asked: float) -> ChannelDepths:
    """Return an nsqd's figures; messages that wait in a topic count for each of its channels.

    A channel of the fork is a position in the log of a partition, and what is in flight or put off is not finished
    there: its depth is all. It is counted where the partition is led.
    """
    held: dict[Lane, int] = {}
    topics: dict[str, set[str]] = {}
    led: dict[str, set[int]] = {}
    channels: dict[Lane, ChannelStats] = {}
    for topic in stats:
        if topic.is_leader and topic.partition is not None:
            led.setdefault(topic.topic_name, set()).add(topic.partition)
        names = topics.setdefault(topic.topic_name, set())
        for channel in topic.channels:
            lane = Lane(topic.topic_name, channel.channel_name)
            names.add(channel.channel_name)
            held[lane] = held.get(lane, 0) + _held(topic, channel)
            if not topic.topic_partition:
                channels[lane] = channel
    return ChannelDepths(asked, held, topics, led, channels)


def finished(channel: ChannelStats) -> int:
    """Return how many messages of a channel consumers have finished since the nsqd began."""
    return channel.message_count - channel.depth - channel.in_flight_count - channel.deferred_count


def _held(topic: TopicStats, channel: ChannelStats) -> int:
    if topic.topic_partition:
        return channel.depth if topic.is_leader else 0
    return topic.depth + channel.depth + channel.in_flight_count + channel.deferred_count


class ChannelWindows:
    """How the channels of several nsqds get on, as far as anybody looks."""

    def __init__(self) -> None:
        self._windows: dict[Lane, Windows] = {}

    def look(self, lanes: Iterable[Lane], readings: Mapping[str, ChannelDepths], now: int) -> dict[Lane, Progress]:
        """Take in the newest readings by nsqd, and return how each channel gets on that is read; ``now`` in ms."""
        self._windows = {lane: self._windows.get(lane) or Windows() for lane in lanes}
        return {lane: self._look(lane, windows, readings, now) for lane, windows in self._windows.items()}

    @staticmethod
    def _look(lane: Lane, windows: Windows, readings: Mapping[str, ChannelDepths], now: int) -> Progress:
        found = {name: reading.channels[lane] for name, reading in readings.items() if lane in reading.channels}
        windows.forget(but=[name for name in found if readings[name].held[lane]])
        if windows.is_due(now):
            for name, channel in found.items():
                seen = Observation(now, finished(channel), readings[name].held[lane])
                windows.note(name, seen, is_alive=channel.client_count > 0)
        if paused := sorted(name for name, channel in found.items() if channel.paused and readings[name].held[lane]):
            return Progress(Verdict.STOPPED, tuple(paused), is_paused=True)
        return windows.progress(now)
