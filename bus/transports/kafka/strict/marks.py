"""The mark of a topic: its id and its end, which shows later whether its messages are still there."""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.errors import TransportUnavailable
from bus.localized_text import localized
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.protocol.metadata import layout_of
from bus.transports.kafka.protocol.requests import LATEST, offsets
from bus.transports.kafka.strict.copies import PARTITION, pair

_BETWEEN: Final = "@"


class TopicMark(NamedTuple):
    """A topic as it was once.

    Attributes
    ----------
    id
        Another one once the topic is made anew; empty where brokers did not say one (before Kafka 2.8).
    end
        The offset below which all that both brokers had was. Retention drops what is before it, and never lowers it.
    """

    id: str
    end: int

    def has(self, earlier: TopicMark) -> bool:
        """Whether this is the topic that had an earlier mark, with all that it had then."""
        is_it = self.id == earlier.id or not (self.id and earlier.id)
        return is_it and self.end >= earlier.end

    def __str__(self) -> str:
        return f"{self.id}{_BETWEEN}{self.end}"


def parse_mark(text: str) -> TopicMark:
    """Undo ``str``."""
    topic_id, _, end = text.rpartition(_BETWEEN)
    return TopicMark(topic_id, int(end))


class ConfirmedEnds:
    """The offsets of topics below which this process has had everything confirmed: mostly more than marks have."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._marks: dict[str, TopicMark] = {}

    def note(self, topic: str, end: int) -> None:
        """Note a confirmed end."""
        self._ends[topic] = max(end, self.end(topic))

    def end(self, topic: str) -> int:
        """Return the offset; 0 for none."""
        return self._ends.get(topic, 0)

    def forget(self, topic: str) -> None:
        """Drop the end and the mark of a topic whose data is lost permanently."""
        self._ends.pop(topic, None)
        self._marks.pop(topic, None)

    def raised(self, topic: str, mark: TopicMark) -> TopicMark:
        """Return a mark of all that was confirmed, too, since it was put into the chain.

        One that is not of what the mark before was of shows that others have noted the loss of that.
        """
        before = self._marks.get(topic)
        if before is not None and not mark.has(before):
            self.forget(topic)
        self._marks[topic] = mark
        return mark._replace(end=max(mark.end, self.end(topic)))


async def topic_mark(cluster: Cluster, topic: str) -> TopicMark:
    """Return the mark that a topic has now.

    Raises
    ------
    TransportUnavailable
        It has no leader, or does not exist.
    KafkaError, OSError
        The brokers do not answer.
    """
    layout = await layout_of(cluster, topic)
    if layout is not None and layout.leaders.get(PARTITION) is not None:
        found = await offsets(cluster, {topic: layout}, LATEST)
        if (end := found[topic].get(PARTITION)) is not None:
            return TopicMark(layout.id, end)
    raise TransportUnavailable(localized("kafka: {topic} has no leader now", topic=topic))


async def has_mark(cluster: Cluster, topic: str, mark: TopicMark) -> bool:
    """Whether a topic still has the messages that it had when it was marked.

    It has not only while both brokers keep a copy in step: else the other one may come back with it.

    Raises
    ------
    TransportUnavailable
        One of the brokers that may have it is unreachable; or as ``topic_mark``.
    KafkaError, OSError
        The brokers do not answer.
    """
    if (await topic_mark(cluster, topic)).has(mark):
        return True
    await pair(cluster, topic)
    return (await topic_mark(cluster, topic)).has(mark)
