"""Observations of a topic on the nsqds of a cluster, and for how long they have not changed.

A topic never counts as empty because a server did not answer: a cluster with an nsqd that gave no answer is not whole,
and an observation that is not whole proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from bus.localized_text import AnyText


class ChannelSeen(msgspec.Struct, frozen=True):
    """A channel on one partition, or on one stock nsqd: its backlog, and how many consumers are connected."""

    name: str
    depth: int = 0
    in_flight: int = 0
    deferred: int = 0
    consumers: int = 0

    @property
    def waiting(self) -> int:
        """Messages that are not finished."""
        return self.depth + self.in_flight + self.deferred


class PartSeen(msgspec.Struct, frozen=True):
    """One partition of the fork at its leader, or a topic on one stock nsqd.

    Attributes
    ----------
    place
        ``HOST:HTTP_PORT`` of the nsqd, with ``/PARTITION`` of the fork.
    since
        When that nsqd started (s): its counter began anew then.
    written
        Its counter of messages written.
    unrouted
        Of stock NSQ, messages that no channel has yet.
    """

    place: str
    since: int = 0
    written: int = 0
    unrouted: int = 0
    channels: tuple[ChannelSeen, ...] = ()

    @property
    def waiting(self) -> int:
        """Messages that are not finished."""
        return self.unrouted + sum(channel.waiting for channel in self.channels)

    @property
    def names(self) -> set[str]:
        """Its channels."""
        return {channel.name for channel in self.channels}


class TopicObservation(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in one cluster, as all its nsqds reported it within a moment.

    Attributes
    ----------
    partitions
        Number that the fork reports; 0 for a topic that does not exist, and for stock NSQ.
    meta
        The fork's metadata of the topic; None of stock NSQ.
    producers
        Connections that publish; None where no nsqd reports them.
    is_fork
        Whether the cluster is one of the fork, which has partitions; None while that is not known.
    unknown
        Why a value is missing; empty when all are known.
    """

    cluster: str
    is_fork: bool | None = None
    exists: bool = False
    partitions: int = 0
    meta: Mapping[str, Any] | None = None
    parts: tuple[PartSeen, ...] = ()
    producers: int | None = None
    unknown: tuple[AnyText, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every nsqd that may have something of the topic answered."""
        return not self.unknown

    @property
    def is_ordered(self) -> bool:
        """Whether the fork keeps the order of each partition."""
        return bool((self.meta or {}).get("ordered"))

    @property
    def waiting(self) -> int:
        """Messages that are not finished."""
        return sum(part.waiting for part in self.parts)

    @property
    def channels(self) -> set[str]:
        """The channels of any part."""
        return {name for part in self.parts for name in part.names}

    @property
    def consumed(self) -> set[str]:
        """The channels that have consumers."""
        return {channel.name for part in self.parts for channel in part.channels if channel.consumers}

    @property
    def consumers(self) -> int:
        """Connections that consume."""
        return sum(channel.consumers for part in self.parts for channel in part.channels)

    @property
    def counters(self) -> tuple[tuple[str, int, int], ...]:
        """Value that changes whenever a message is written, or an nsqd started anew."""
        return tuple(sorted((part.place, part.since, part.written) for part in self.parts))

    def lacking(self, channels: set[str]) -> set[str]:
        """Return which of these channels some part does not have; all of them while there is no part."""
        return {name for name in channels if not self.parts or any(name not in part.names for part in self.parts)}


class IdleObservation(NamedTuple):
    """An observation of a topic, and for how many seconds no message was written, and none waited.

    This is measured by the counters of messages; an observation that is not whole gives 0.
    """

    sight: TopicObservation
    unwritten_for: float = 0.0
    drained_for: float = 0.0


class Watch:
    """Successive observations of one cluster, and since when they are the same.

    Times are seconds of this process's monotonic clock. A process that starts again counts anew, so that a wait is
    only ever longer than it had to be.
    """

    def __init__(self) -> None:
        self._counters: tuple[tuple[str, int, int], ...] | None = None
        self._unwritten_since: float | None = None
        self._drained_since: float | None = None

    def note(self, sight: TopicObservation, began: float, ended: float) -> IdleObservation:
        """Add an observation that was made from ``began`` to ``ended``, and return it with its times."""
        if not sight.is_whole:
            self._unwritten_since = None
        elif self._unwritten_since is None or sight.counters != self._counters:
            self._unwritten_since = ended
        self._counters = sight.counters
        if not sight.is_whole or sight.waiting:
            self._drained_since = None
        elif self._drained_since is None:
            self._drained_since = ended
        return IdleObservation(sight, _for(self._unwritten_since, began), _for(self._drained_since, began))


def _for(since: float | None, now: float) -> float:
    return max(0.0, now - since) if since is not None else 0.0
