"""``/api/v1/lookup/failovers``: sites that people have declared lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bus.domain.routing.answers import Unreadable, merge_lists, opened
from bus.domain.routing.failover import Failover, Phase, begin_failover, following
from bus.domain.times import format_time
from bus.errors import Conflict
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from lookup.api import ApiAnswer, Change, read_as
from lookup.failovers import Failovers
from lookup.migrating.evidence import Evidence
from lookup.nsqlookupd import LookupUnavailable
from lookup.routing import Routing

_ALL: Final = "/failovers"
_END: Final = re.compile(r"/failovers/(.{1,200})/end")
_OK: Final = 200
_CREATED: Final = 201
_MOST_TOPICS: Final = 1_000


class _FailoverBody(msgspec.Struct, forbid_unknown_fields=True):
    room: str
    to: str = ""
    force: bool = False


class _FailoverEnd(msgspec.Struct, forbid_unknown_fields=True):
    force: bool = False


class FailoversResource:
    """Failover API; refuses a failover of a site whose clusters answer, and its end while messages wait elsewhere."""

    def __init__(self, failovers: Failovers, routing: Routing, evidence: Evidence, clock: Clock) -> None:
        self._failovers = failovers
        self._routing = routing
        self._evidence = evidence
        self._clock = clock

    def look(self, path: str) -> ApiAnswer | None:
        """Return all of them."""
        return (
            ApiAnswer(_OK, {"items": [_shown(one) for one in self._failovers.all], "next": None})
            if path == _ALL
            else None
        )

    def change(self, path: str, body: bytes, by: str) -> Change | None:
        """Return the action that begins or ends a failover."""
        if path == _ALL:
            return lambda: self._begin(body, by)
        found = _END.fullmatch(path)
        return (lambda: self._end(found[1], body)) if found is not None else None

    async def _begin(self, body: bytes, by: str) -> ApiAnswer:
        asked = read_as(body, _FailoverBody)
        failover = begin_failover(self._routing.rooms, asked.room, asked.to, by, self._clock.now())
        answering = [name for name in failover.lost if await self._answers(name)]
        if answering and not asked.force:
            names = ", ".join(answering)
            raise Conflict(
                localized("{room} is not lost: {names} answers; nothing was changed", room=asked.room, names=names),
                hint=localized(
                    "move its topics with migrations, which lose no order; or force it: {option}", option="--force"
                ),
            )
        await self._failovers.put(failover)
        return ApiAnswer(_CREATED, _shown(failover))

    async def _end(self, room: str, body: bytes) -> ApiAnswer:
        forced = read_as(body, _FailoverEnd).force
        before = self._failovers.get(room)
        after = following(before, self._clock.now())
        if after.phase is Phase.ENDED and not forced and (waiting := await self._waiting(before)):
            raise Conflict(
                localized(
                    "consumers are still needed on {to}: {waiting}; nothing was changed", to=before.to, waiting=waiting
                ),
                hint=localized("wait until it is consumed, or leave it there: {option}", option="--force"),
            )
        await self._failovers.put(after)
        return ApiAnswer(_OK, _shown(after))

    async def _answers(self, name: str) -> bool:
        cluster = self._routing.clusters.get(name)
        return cluster is not None and await cluster.answers()

    async def _waiting(self, failover: Failover) -> AnyText:
        """Return the topics with messages in clusters that are consumed only by the failover; empty without any."""
        try:
            topics = await self._topics(failover)
        except LookupUnavailable as error:
            return error.said
        except Unreadable as error:
            return str(error)
        return joined(await self._look(topics[:_MOST_TOPICS], failover.to))

    async def _topics(self, failover: Failover) -> list[str]:
        """Return the topics of the other cluster that would have no consumer there; raises ``LookupUnavailable``."""
        cluster = self._routing.clusters.get(failover.to)
        if cluster is None:
            raise LookupUnavailable(localized("{name} is no cluster of this proxy's file", name=failover.to))
        told = [opened(one.content) for one in await cluster.ask("/topics")]
        return [topic for topic in merge_lists(told, "topics")["topics"] if self._is_only_here(topic, failover)]

    async def _look(self, topics: Sequence[str], name: str) -> list[AnyText]:
        cluster = self._routing.clusters.get(name)
        sights = await asyncio.gather(*(self._evidence.look(cluster, name, topic) for topic in topics))
        found: list[AnyText] = []
        for topic, sight in zip(topics, sights, strict=True):
            if not sight.is_whole:
                found.append(joined(sight.unknown))
            elif sight.waiting:
                found.append(localized("{count} messages of {topic} wait", count=sight.waiting, topic=topic))
        return found

    def _is_only_here(self, topic: str, failover: Failover) -> bool:
        route = self._routing.usual(topic)
        return (
            route is not None and not set(failover.lost).isdisjoint(route.produce) and failover.to not in route.consume
        )


def _shown(failover: Failover) -> dict[str, Any]:
    return {
        "room": failover.room,
        "lost": failover.lost,
        "to": failover.to,
        "phase": failover.phase,
        "since": format_time(failover.at),
        "by": failover.by,
        "began_at": format_time(failover.began_at),
    }
