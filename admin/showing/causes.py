"""The reasons why deliveries are not in flight, from the configuration and the live processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from admin.showing.strict_orders import StrictOrders
from bus.bootstrap import Context, Introspection
from bus.cluster.member import Member
from bus.domain.delivery.causes import Cause, Moment, Place, Post, behind, blocks, live, planned, unread
from bus.domain.delivery.delivery import FINAL, Status
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.health.facts import Lane
from bus.domain.health.vitals import BreakerFigures, WorkerFigures
from bus.domain.subscription import Subscription
from bus.domain.tracing.trace import Trace
from bus.localized_text import localized
from bus.observing.reading import CachedCall


class _DispatcherReport(NamedTuple):
    workers: Mapping[Lane, WorkerFigures]
    breakers: Mapping[str, BreakerFigures]


class Causes:
    """Asks the dispatchers at most twice a second, and only about deliveries that the configuration does not hold."""

    def __init__(self, context: Context, introspection: Introspection, strict: StrictOrders) -> None:
        self._context = context
        self._introspection = introspection
        self._strict = strict
        self._told = CachedCall(self._ask, context.clock, least=0.5)

    async def of(self, trace: Trace) -> Mapping[str, Cause]:
        """Return why each unfinished delivery is not in flight, by subscription; unknown causes are left out.

        A dead delivery is included if it holds up its key.

        Takes as long as the dispatchers take to answer, 2 s at most.
        """
        catalog, now = self._context.registry.catalog, self._context.clock.now()
        destination = catalog.destinations.get(trace.destination)
        found: dict[str, Cause] = {}
        rest: list[Subscription] = []
        for name, delivery in trace.deliveries.items():
            subscription = catalog.subscriptions.get((trace.destination, name))
            is_open = delivery.status not in FINAL
            cause = planned(trace, name, destination, subscription, now) if is_open else None
            cause = cause or await self._in_order(trace, destination, name)
            if cause is None and delivery.status is Status.PENDING:
                cause = await self._unread(destination, name)
            if cause is not None:
                found[name] = cause
            elif is_open and subscription is not None:
                rest.append(subscription)
        if rest and destination is not None:
            found |= await self._live(trace, destination, rest)
        return found

    async def _in_order(self, trace: Trace, destination: Destination | None, name: str) -> Cause | None:
        """Return the cause of a delivery that waits for an earlier one of its key, or is dead and holds up others."""
        key, status = _key(trace, destination), trace.deliveries[name].status
        if key is None or status not in (Status.PENDING, Status.DEAD):
            return None
        first = await self._context.store.ordered_rows(trace.destination, name, key, limit=1)
        if not first or (first[0].message_id == trace.id) is not (status is Status.DEAD):
            return None
        return blocks() if status is Status.DEAD else behind(first[0].message_id)

    async def _unread(self, destination: Destination | None, name: str) -> Cause | None:
        """Return the cause of a delivery in a strict order whose earlier messages cannot be read."""
        if destination is None or destination.ordering is not Ordering.STRICT:
            return None
        what = await self._strict.held_up(destination.code, name)
        return unread(what) if what is not None else None

    async def _live(
        self, trace: Trace, destination: Destination, subscriptions: Iterable[Subscription]
    ) -> dict[str, Cause]:
        told = await self._told.value() or {}
        members = self._introspection.members
        dispatchers = [member for member in members if member.is_dispatcher]
        found: dict[str, Cause] = {}
        for subscription in subscriptions:
            moment = Moment(
                now=self._context.clock.now(),
                posts=[_post(member, told.get(member.owner), subscription.key) for member in dispatchers],
                is_whole=all(member.owner in told for member in dispatchers),
                has_clock=_key(trace, destination) is not None
                or any("compensator" in member.roles for member in members),
                places=list(_places(self._context, destination, subscription.name, members)),
                unseen={
                    member.node: member.unseen[destination.code]
                    for member in members
                    if destination.code in member.unseen
                },
            )
            if (cause := live(trace, subscription, moment)) is not None:
                found[subscription.name] = cause
        return found

    async def _ask(self) -> dict[str, _DispatcherReport]:
        """Return the state of each dispatcher, by owner; one that does not answer is left out."""
        dispatchers = [member for member in self._context.members.all if member.is_dispatcher]
        answers = await self._introspection.reports.of(dispatchers)
        return {
            answer.member.owner: _DispatcherReport(
                {(one.destination, one.subscription): one for one in answer.report.workers}, answer.report.breakers
            )
            for answer in answers
            if answer.report is not None
        }


def _key(trace: Trace, destination: Destination | None) -> str | None:
    """Return the key by which a message is kept in order; None for none."""
    if destination is None or trace.message is None:
        return None
    return destination.ordering.key_of(trace.message.key)


def _post(member: Member, told: _DispatcherReport | None, key: Lane) -> Post:
    """Return a dispatcher's state for a subscription; if it does not answer, what it last announced to all."""
    lane = "/".join(key)
    if told is None:
        return Post(member.node, breaker=member.breakers.get(lane))
    return Post(member.node, told.workers.get(key), told.breakers.get(lane))


def _places(context: Context, destination: Destination, name: str, members: Sequence[Member]) -> Iterator[Place]:
    code = destination.code
    for member in members:
        if (since := member.unpublished.get(code)) is not None:
            yield Place(localized("the local queue of the receiver on {node}", node=member.node), since)
    for transport in destination.transports:
        lag = context.router.lag(destination, name, transport) if transport is not TransportName.DIRECT else None
        if lag is not None and lag.records:
            yield Place(localized("its queue in {broker}", broker=str(transport)), lag.oldest or 0)
    for member in members:
        held = member.held.get(f"{code}/{name}")
        if held is not None and held.queued and held.oldest is not None:
            yield Place(localized("the direct queue of the dispatcher on {node}", node=member.node), held.oldest)
