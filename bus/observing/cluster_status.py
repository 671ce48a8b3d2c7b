"""The whole bus as this process sees it now: the other processes' last reports, transports and counters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from bus.bootstrap import Context, Introspection
from bus.cluster.finding_documents import FindingDocuments
from bus.cluster.member import HeldMessages, Member, host_of
from bus.domain.delivery.delivery import Status
from bus.domain.destination import TransportName
from bus.domain.health.alarm import Alarm
from bus.domain.health.alarms import alarms
from bus.domain.health.conditions import Condition, conditions
from bus.domain.health.facts import (
    Backlog,
    DeliveryRates,
    Disk,
    Facts,
    Lane,
    OpenBreaker,
    Part,
    ProducerQueue,
    PublishTarget,
    Queue,
)
from bus.domain.health.progress import Progress, Verdict
from bus.domain.health.rulebook import VOLUME_WINDOW, Rulebook
from bus.domain.statistics.rollup import MINUTE, RESOLUTIONS
from bus.domain.statistics.series import Figures, SeriesGrouping, series_of
from bus.observing.reading import CachedCall
from bus.stores.rollups import RollupReader

_HOUR: Final = 60 * MINUTE
_WRITTEN_WITHIN: Final = MINUTE // 2
_FRESH: Final = 0.5
_SILENT: Final = 5.0
"""Seconds after which what a process told, through the store, is too old, and it is asked itself."""
_BY_MINUTE, _BY_TEN_MINUTES, *_ = RESOLUTIONS


class Rates(NamedTuple):
    """What was counted from ``since`` (ms) to ``until``, by destination and by subscription."""

    since: int
    until: int
    destinations: Mapping[str, Figures]
    lanes: Mapping[Lane, Figures]


class StatusSnapshot(NamedTuple):
    """The bus at one moment.

    ``backlog`` has the subscriptions for which something waits, or may.
    ``rates``, ``retrying`` and ``dead`` come from the store and are None while it does not answer. ``retrying`` counts
    the compensations, ``dead`` what died within the last hour, ``dead_before`` within the hour before it. ``facts`` has
    all of it, as rules judge it.
    """

    now: int
    members: list[Member]
    backlog: Mapping[Lane, Backlog]
    rates: Rates | None
    retrying: Mapping[Lane, int] | None
    dead: Mapping[Lane, int] | None
    dead_before: Mapping[Lane, int] | None
    facts: Facts


class ClusterStatus:
    """Reads the bus at most twice a second, however many ask; slow counts of the store less often."""

    def __init__(self, context: Context, introspection: Introspection, rollups: RollupReader, book: Rulebook) -> None:
        self._context = context
        self._book = book
        self._judged: tuple[StatusSnapshot, list[Alarm]] | None = None
        self._conditions: tuple[StatusSnapshot, list[Condition]] | None = None
        self._looking = asyncio.Lock()
        self._seen: tuple[float, StatusSnapshot] | None = None
        self._introspection = introspection
        self._rollups = rollups
        self._rates = CachedCall(self._read_rates, context.clock, least=1.0)
        self._retrying = CachedCall(self._read_retrying, context.clock, least=1.0)
        self._dead = CachedCall(self._read_dead, context.clock, least=5.0)
        self._accepted = CachedCall(self._read_accepted, context.clock, least=10.0)
        self._findings = CachedCall(FindingDocuments(context.store).found, context.clock, least=5.0)

    async def look(self) -> StatusSnapshot:
        """Return the bus as it was at most half a second ago."""
        monotonic = self._context.clock.monotonic
        async with self._looking:
            if self._seen is None or monotonic() - self._seen[0] >= _FRESH:
                found = await self._look()
                self._seen = (monotonic(), found)
            return self._seen[1]

    async def _look(self) -> StatusSnapshot:
        context = self._context
        rates, retrying, died, accepted, findings, members = await asyncio.gather(
            self._rates.value(),
            self._retrying.value(),
            self._dead.value(),
            self._accepted.value(),
            self._findings.value(),
            self._members(),
        )
        dead_before, dead = died if died is not None else (None, None)
        waiting = dict(_backlogs(context, members))
        facts = _facts(context, members)._replace(
            waiting=waiting,
            progress=dict(_progress(context, members)),
            dead=_of_known(context, dead) if dead is not None else None,
            delivering=_delivering(rates) if rates is not None else None,
            accepted=accepted,
            findings=findings,
            is_blind=dead is None and not context.members.others,
        )
        return StatusSnapshot(
            now=context.clock.now(),
            members=members,
            backlog=waiting,
            rates=rates,
            retrying=retrying,
            dead=dead,
            dead_before=dead_before,
            facts=facts,
        )

    async def _members(self) -> list[Member]:
        """Return every live process, this one first.

        While the store is away nobody hears of another: who has been silent is asked, and gone without an answer.
        """
        members = self._context.members
        silent = [one for one in members.others if members.seen(one.owner) > _SILENT]
        answers = await self._introspection.reports.of(silent)
        asked = {one.member.owner: one.report.member if one.report is not None else None for one in answers}
        found = [asked.get(one.owner, one) for one in self._introspection.members]
        return [one for one in found if one is not None]

    def alarms(self, sight: StatusSnapshot) -> list[Alarm]:
        """Return what needs a person in what was seen; worked out once for all who ask."""
        if self._judged is None or self._judged[0] is not sight:
            self._judged = (sight, alarms(sight.facts, self._book))
        return self._judged[1]

    async def conditions(self, sight: StatusSnapshot) -> list[Condition]:
        """Return how each subscription does in what was seen; worked out once for all who ask."""
        known = self._conditions
        if known is None or known[0] is not sight:
            # In a thread, since thousands of subscriptions would hold up deliveries of this process.
            known = (sight, await asyncio.to_thread(lambda: list(conditions(sight.facts, sight.retrying))))
            self._conditions = known
        return known[1]

    async def _read_rates(self) -> Rates:
        """Read the counts of the present minute and the one before."""
        now = self._context.clock.now()
        since = _BY_MINUTE.start(now - MINUTE)
        sheets = await self._rollups.sheets(_BY_MINUTE, since, now + 1)
        # In a thread, since many subscriptions would hold up deliveries of this process.
        destinations = await asyncio.to_thread(series_of, sheets, SeriesGrouping.DESTINATION, _everything)
        lanes = await asyncio.to_thread(series_of, sheets, SeriesGrouping.SUBSCRIPTION, _everything)
        return Rates(
            since,
            now,
            {one.name[0]: one.total for one in destinations},
            {(one.name[0], one.name[1]): one.total for one in lanes},
        )

    async def _read_retrying(self) -> Mapping[Lane, int]:
        return await self._context.store.due(self._context.clock.now())

    async def _read_accepted(self) -> Mapping[str, int] | None:
        """Count the messages of ten minutes; None until a receiver has lived so long.

        Not those of the last half minute, within which every process that lives has written what it counted.
        """
        until = _BY_MINUTE.start(self._context.clock.now() - _WRITTEN_WITHIN)
        since = [member.since for member in self._introspection.members if "receiver" in member.roles]
        if until - VOLUME_WINDOW < min(since, default=until):
            return None
        sheets = await self._rollups.sheets(_BY_MINUTE, until - VOLUME_WINDOW, until)
        found: dict[str, int] = {}
        for sheet in sheets.values():
            for destination, sources in sheet.accepted.items():
                found[destination] = found.get(destination, 0) + sum(sources.values())
        return found

    async def _read_dead(self) -> tuple[Mapping[Lane, int], Mapping[Lane, int]]:
        """Count what died within the hour before the last one, and within the last one."""
        now = self._context.clock.now()
        since = _BY_TEN_MINUTES.start(now - _HOUR)
        sheets = await self._rollups.sheets(_BY_TEN_MINUTES, since - _HOUR, now + 1)
        before: dict[Lane, int] = {}
        lately: dict[Lane, int] = {}
        for start, sheet in sheets.items():
            found = lately if start >= since else before
            for destination, lanes in sheet.deliveries.items():
                for name, counts in lanes.items():
                    if dead := counts.others.get(Status.DEAD, 0):
                        found[destination, name] = found.get((destination, name), 0) + dead
        return before, lately


def _everything(_: str) -> bool:
    return True


def _backlogs(context: Context, members: list[Member]) -> Iterator[tuple[Lane, Backlog]]:
    """Yield what waits for a subscription: in the direct queues of all dispatchers, and on its brokers."""
    catalog = context.registry.catalog
    lags = {name: held for name, held in context.router.lags().items() if name != TransportName.DIRECT}
    queued: dict[Lane, list[HeldMessages]] = {}
    for member in members:
        for lane, found in member.held.items():
            code, _, name = lane.partition("/")
            queued.setdefault((code, name), []).append(found)
    for key in catalog.subscriptions:
        destination = catalog.destinations.get(key[0])
        if key not in queued and (destination is None or destination.is_direct):
            continue
        held = queued.get(key, ())
        records: int | None = sum(found.queued for found in held)
        times = [found.oldest for found in held if found.oldest is not None]
        for transport in destination.transports if destination is not None else ():
            if transport in lags:
                known = lags[transport]
                lag = known.get(key) if known is not None else None
                records = None if known is None or records is None else records + (lag.records if lag else 0)
                times += [lag.oldest] if lag is not None and lag.oldest is not None else []
        if times or records != 0:
            yield key, Backlog(records, min(times, default=None))


def _progress(context: Context, members: list[Member]) -> Iterator[tuple[Lane, Progress]]:
    """Yield how what waits on brokers is worked off; who holds some of it reads, though it may rest now."""
    for key, found in context.router.progress().items():
        is_held = any("/".join(key) in member.held for member in members)
        is_resting = found.verdict is Verdict.STOPPED and not found.is_paused and is_held
        yield key, found._replace(verdict=Verdict.STALLED) if is_resting else found


def _of_known(context: Context, found: Mapping[Lane, int]) -> Mapping[Lane, int]:
    return {lane: count for lane, count in found.items() if lane in context.registry.catalog.subscriptions}


def _delivering(rates: Rates) -> dict[Lane, DeliveryRates]:
    return {
        lane: DeliveryRates(found.counts.attempts, found.counts.failed, found.latency(0.99))
        for lane, found in rates.lanes.items()
    }


def _facts(context: Context, members: list[Member]) -> Facts:
    return Facts(
        now=context.clock.now(),
        roles={role for member in members for role in member.roles},
        parts=[
            Part(name, trouble, member.owner, member.node)
            for member in members
            for name, trouble in member.told_troubles().items()
        ],
        unreachable=context.members.unreachable,
        # Should two processes watch for a moment, they tell the same.
        brokers=list({found.cluster: found for member in members for found in member.brokers}.values()),
        store=next((member.store for member in members if member.store is not None), None),
        disks=[Disk(member.owner, host_of(member.node), found) for member in members for found in member.disks],
        queues=[
            Queue(member.owner, member.node, name, found) for member in members for name, found in member.spools.items()
        ],
        breakers=list(breakers(members)),
        destinations=context.registry.catalog.destinations,
        subscriptions=context.registry.catalog.subscriptions.values(),
        publishing=list(_publishing(context, members)),
        # The highest of a machine's sweepers, which watch the same directories as a rule.
        orphans={
            host: max(member.orphans for member in members if host_of(member.node) == host)
            for host in {host_of(member.node) for member in members}
        },
        rejected=[figures for member in members for figures in member.rejected],
        turned_away=[figures for member in members for figures in member.turned_away],
        producers=[ProducerQueue(host_of(member.node), one) for member in members for one in member.producers],
        certificates=[one for member in members for one in member.certificates],
        saturated=set(_lanes(member.saturated for member in members)),
        held_by_rate=set(_lanes(member.held_by_rate for member in members)),
    )


def _lanes(told: Iterable[Iterable[str]]) -> Iterator[Lane]:
    for lane in chain.from_iterable(told):
        code, _, name = lane.partition("/")
        yield code, name


def breakers(members: list[Member]) -> Iterator[OpenBreaker]:
    """Yield the breakers that are not closed, of every dispatcher."""
    for member in members:
        for lane, figures in member.breakers.items():
            destination, _, name = lane.partition("/")
            yield OpenBreaker(member.node, destination, name, figures)


def _publishing(context: Context, members: list[Member]) -> Iterator[PublishTarget]:
    primaries: dict[str, str] = {}
    for cluster, transport in context.router.preference.clusters.items():
        primaries.setdefault(transport, cluster)
    preferred = context.registry.preference.cluster
    for member in members:
        for transport, cluster in member.published_to.items():
            primary = primaries.get(transport, cluster)
            yield PublishTarget(member.url, transport, cluster, primary, is_chosen=preferred == cluster)
