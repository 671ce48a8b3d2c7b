"""Answers to lookups: asked of a topic's clusters at once, once for all who ask together, and kept for a moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.routing.answers import Answer, MergedAnswer, merge, union
from bus.domain.routing.rooms import Route
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.telemetry import metrics
from lookup.cluster import Cluster, all_of
from lookup.lru_cache import LruCache
from lookup.nsqlookupd import LookupUnavailable
from lookup.query import Query
from lookup.replies import STALE, Replies, answered, missing, refused

_log = logging.getLogger(__name__)
FRESH: Final = 1.0
"""Seconds for which an answer is given again without asking; half a client's patience would be far too long."""
_FRESH_REFUSAL: Final = 0.2
KEPT: Final = 600.0
"""Seconds for which partitions, or a whole answer, stand in for clusters that do not answer."""
_MOST: Final = 10_000
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503
_Clusters = tuple[Cluster | None, ...]
_STOPPING: Final = refused(_UNAVAILABLE, "this lookup proxy stops", has_envelope=False)
_FAILED: Final = refused(500, "this lookup proxy failed at a lookup; its log has the traceback", has_envelope=False)


class _CachedAnswer(NamedTuple):
    """An answer that was given, of these clusters."""

    replies: Replies
    of: _Clusters
    at: float
    until: float


class _LookupCache(NamedTuple):
    answer: Answer
    at: float


class Lookups:
    """Looks topics up in the clusters of their routes.

    Parameters
    ----------
    route
        Gives the route of a topic that is in force now; None when it has none.
    clusters
        Gives the clusters by name.
    """

    def __init__(
        self, route: Callable[[str], Route | None], clusters: Callable[[], Mapping[str, Cluster]], clock: Clock
    ) -> None:
        self._route = route
        self._clusters = clusters
        self._clock = clock
        self._given: LruCache[Query, _CachedAnswer] = LruCache(_MOST)
        self._good: LruCache[Query, _CachedAnswer] = LruCache(_MOST)
        self._kept: LruCache[tuple[Cluster, Query], _LookupCache] = LruCache(_MOST)
        self._waiting: dict[tuple[Query, Route | None, str], list[Callable[[Replies], None]]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def fresh(self, query: Query) -> Replies | None:
        """Return an answer that was given a moment ago, if there is one and the topic's route is still the same."""
        given = self._given.get(query)
        if given is None or given.until <= self._clock.monotonic():
            return None
        route = self._route(query.topic)
        return given.replies if route is not None and given.of == self._of(route.clusters(query.access)) else None

    def begin(self, query: Query, tell: Callable[[Replies], None], via: str = "") -> None:
        """Have a question answered in a later turn; the same question asked meanwhile gets the same answer."""
        route = self._route(query.topic)
        waiting = self._waiting.get((query, route, via))
        if waiting is not None:
            waiting.append(tell)
        elif self._group is None:
            asyncio.get_running_loop().call_soon(tell, _STOPPING)
        else:
            self._waiting[query, route, via] = [tell]
            self._group.create_task(self._tell(query, route, via))

    async def _tell(self, query: Query, route: Route | None, via: str) -> None:
        """Call all waiters with the answer; a defect costs only these their answer."""
        replies = _FAILED
        try:
            with metrics.LOOKUP_SECONDS.time():
                replies = await self._answer(query, route, via)
        except Exception:  # noqa: BLE001 - the proxy lives
            _log.exception("a lookup of %s failed", query.topic[:64])
        finally:
            for tell in self._waiting.pop((query, route, via)):
                tell(replies)

    async def _answer(self, query: Query, route: Route | None, via: str) -> Replies:
        if route is None:
            return refused(_NOT_FOUND, "TOPIC_NOT_FOUND", has_envelope=False)
        if not route.clusters(query.access):
            return self._nobody(query, route)
        return self.fresh(query) or await self._ask(query, route, via)

    def _nobody(self, query: Query, route: Route) -> Replies:
        """Return the answer that has a client close its connections and open none, with the partitions it had."""
        of = self._of(route.consume)
        kept = next((last for cluster in of if (last := self._last(cluster, query)) is not None), None)
        is_fork = _have_fork(of)
        nobody = Answer(partitions={}, meta=kept.meta if kept is not None else None) if is_fork else Answer()
        return answered(merge([nobody], None).content, has_envelope=is_fork)

    async def _ask(self, query: Query, route: Route, via: str) -> Replies:
        names = route.clusters(query.access)
        of = self._of(names)
        found = await all_of([self._look_up(cluster, query, via) for cluster in of])
        absent = [name for name, answer in zip(names, found, strict=True) if answer is None]
        if len(absent) == len(names):
            return self._without(query, of, None, absent)
        merged = merge(found, self._last(of[0], query))
        if absent and not merged.content["producers"]:
            return self._without(query, of, merged, absent)
        return self._give(query, of, merged, absent)

    async def _look_up(self, cluster: Cluster | None, query: Query, via: str) -> Answer | None:
        if cluster is None:
            return None
        try:
            answer = await cluster.lookup(query.topic, query.access, with_meta=query.with_meta, via=via)
        except LookupUnavailable:
            metrics.LOOKUP_FAILURES.labels(cluster.name).inc()
            return None
        if cluster.is_settling:
            # What it says now is not kept: it would keep what is gone as well, and with a time of now.
            last = self._last(cluster, query)
            return answer if last is None else union([last, answer])
        if answer.nodes:
            self._kept.put((cluster, query), _LookupCache(answer, self._clock.monotonic()))
        return answer

    def _last(self, cluster: Cluster | None, query: Query) -> Answer | None:
        """Return a cluster's last answer about a topic that it had, unless it is too old."""
        kept = self._kept.get((cluster, query)) if cluster is not None else None
        return kept.answer if kept is not None and self._clock.monotonic() - kept.at <= KEPT else None

    def _give(self, query: Query, of: _Clusters, merged: MergedAnswer, absent: Sequence[str]) -> Replies:
        now = self._clock.monotonic()
        replies = self._replies(of, merged, absent)
        given = _CachedAnswer(replies, of, now, now + (_FRESH_REFUSAL if merged.refusal else FRESH))
        self._given.put(query, given)
        good = self._good.get(query)
        is_better = not absent or good is None or good.of != of or now - good.at > KEPT
        if is_better and merged.content["producers"]:
            self._good.put(query, given)
        return replies

    def _without(self, query: Query, of: _Clusters, merged: MergedAnswer | None, absent: Sequence[str]) -> Replies:
        """Return the answer while clusters that may have the topic do not answer: the last good one, marked."""
        now = self._clock.monotonic()
        good = self._good.get(query)
        if good is not None and good.of == of and now - good.at <= KEPT:
            age = (STALE, b"%d" % (now - good.at))
            plain, enveloped = (reply._replace(fields=(*reply.fields, age, *missing(absent))) for reply in good.replies)
            return Replies(plain, enveloped)
        if merged is not None:
            return self._replies(of, merged, absent)
        fields = missing(absent)
        return refused(_UNAVAILABLE, str(_silent(absent)), has_envelope=_have_fork(of), fields=fields)

    def _replies(self, of: _Clusters, merged: MergedAnswer, absent: Sequence[str]) -> Replies:
        has_envelope = merged.is_partitioned or _have_fork(of)
        if merged.refusal:
            return refused(_NOT_FOUND, merged.refusal, has_envelope=has_envelope, fields=missing(absent))
        return answered(merged.content, has_envelope=has_envelope, fields=missing(absent))

    def _of(self, names: Sequence[str]) -> _Clusters:
        clusters = self._clusters()
        return tuple(clusters.get(name) for name in names)


def _have_fork(clusters: _Clusters) -> bool:
    return any(cluster is not None and cluster.is_fork for cluster in clusters)


def _silent(absent: Sequence[str]) -> AnyText:
    return localized(
        "no nsqlookupd of {names} answers, and no answer of before is young enough", names=", ".join(absent)
    )
