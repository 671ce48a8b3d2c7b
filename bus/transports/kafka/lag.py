"""The lag of each subscription."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from bus.domain.health.progress import Observation, Progress, Windows
from bus.ports.clock import Clock
from bus.ports.transport import Lag
from bus.transports.kafka.commits import Commit
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import TROUBLE, describe
from bus.transports.kafka.names import group_of
from bus.transports.kafka.protocol.metadata import Layout, layouts
from bus.transports.kafka.protocol.requests import LATEST, committed, has_members, offsets
from bus.transports.kafka.topology import EnsuredDestination, Topology

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 16
_UNKNOWN: Final = Lag(0, 0)
"""Nothing is known of it yet, so it may hold messages of any age."""
_NOTHING: Final = Lag(0, None)


class Lags:
    """The lag of each subscription that was ensured here, as of the last ``refresh``.

    A subscription has read the records that it has committed. One that has read everything is not asked
    about again until its topic grows; the lag of one without an answer is not known.
    """

    def __init__(self, cluster: Cluster, topology: Topology, clock: Clock) -> None:
        self._cluster = cluster
        self._topology = topology
        self._clock = clock
        self._windows: dict[tuple[str, str], Windows] = {}
        self._lags: dict[tuple[str, str], Lag] = {}
        self._ends: dict[str, dict[int, int]] = {}

    def lags(self) -> dict[tuple[str, str], Lag]:
        """Return the lag of each subscription."""
        keys = ((ensured.destination.code, name) for ensured in self._topology for name in ensured.subscriptions)
        return {key: self._lags.get(key, _UNKNOWN) for key in keys}

    def progress(self) -> dict[tuple[str, str], Progress]:
        """Return how each subscription gets on that has anything left, as its worst partition."""
        now = self._clock.now()
        return {key: found.progress(now) for key, found in self._windows.items()}

    async def refresh(self) -> None:
        """Ask the cluster.

        Raises
        ------
        KafkaError, OSError
            It does not answer; the figures stay as they were.
        """
        ready = [ensured for ensured in self._topology if ensured.topic is not None]
        if not ready:
            self._lags.clear()
            self._windows.clear()
            return
        found = await layouts(self._cluster, [ensured.name for ensured in ready])
        ends = await offsets(self._cluster, found, LATEST)
        due = (
            (ensured, name)
            for ensured in ready
            if ensured.name in found
            for name in list(ensured.subscriptions)
            if self._is_due(ensured, name, ends[ensured.name])
        )
        while some := list(islice(due, _AT_ONCE)):
            looks = [self._look(ensured, name, found[ensured.name], ends[ensured.name]) for ensured, name in some]
            await asyncio.gather(*looks)
        self._ends = ends
        present = self.lags().keys()
        self._lags = {key: lag for key, lag in self._lags.items() if key in present}
        self._windows = {key: found for key, found in self._windows.items() if self._lags.get(key, _NOTHING).records}

    def _is_due(self, ensured: EnsuredDestination, name: str, ends: dict[int, int]) -> bool:
        lag = self._lags.get((ensured.destination.code, name))
        return lag is None or lag != (0, None) or self._ends.get(ensured.name) != ends

    async def _look(self, ensured: EnsuredDestination, name: str, layout: Layout, ends: dict[int, int]) -> None:
        group = group_of(ensured.name, name)
        try:
            commits = await committed(self._cluster, group, ensured.name, layout)
        except TROUBLE as error:
            _log.debug("kafka: no figures of group %s: %s", group, describe(error))
            self._lags.pop((ensured.destination.code, name), None)
            return
        if not commits:
            return  # its start is being made
        key = ensured.destination.code, name
        self._lags[key] = lag_of(commits, ends)
        if self._lags[key].records:
            await self._judge(self._windows.setdefault(key, Windows()), group, commits, ends)

    async def _judge(self, windows: Windows, group: str, commits: dict[int, Commit], ends: dict[int, int]) -> None:
        """Note where each partition is; whether anybody could commit is asked now and then."""
        now, found = self._clock.now(), _commits(commits, ends)
        windows.forget(but=[str(partition) for partition, commit in found.items() if _left(commit, ends[partition])])
        if not windows.is_due(now):
            return
        try:
            is_alive = await has_members(self._cluster, group)
        except TROUBLE as error:
            _log.debug("kafka: nobody knows who is in group %s: %s", group, describe(error))
            return
        for partition, commit in found.items():
            seen = Observation(now, commit.offset + commit.done.bit_count(), _left(commit, ends[partition]))
            windows.note(str(partition), seen, is_alive=is_alive)


def lag_of(commits: dict[int, Commit], ends: dict[int, int]) -> Lag:
    """Return the backlog of a group with these commits in a topic with these ends.

    A partition without a commit was added since, and is read from its beginning.
    """
    found = _commits(commits, ends)
    left = {partition: _left(commit, ends[partition]) for partition, commit in found.items()}
    floors = [found[partition].floor for partition, records in left.items() if records]
    return Lag(sum(left.values()), min(floors, default=None))


def _commits(commits: Mapping[int, Commit], ends: Iterable[int]) -> dict[int, Commit]:
    return {partition: commits.get(partition, Commit(0)) for partition in ends}


def _left(commit: Commit, end: int) -> int:
    return max(0, end - commit.offset - commit.done.bit_count())
