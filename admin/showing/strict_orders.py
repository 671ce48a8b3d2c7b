"""The state of strictly ordered destinations: their chain, their groups of brokers, and obstacles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from admin.repair.chain_documents import ChainDocuments
from bus.bootstrap import Context
from bus.cluster.member import Member
from bus.domain.delivery.delivery import Status
from bus.domain.destination import Destination, Ordering
from bus.domain.ordering.chain import Chain, Gap, Role, Segment
from bus.domain.ordering.obstacles import GroupState, Obstacle, no_chain, obstacles
from bus.domain.searching.selection import Selection
from bus.errors import InvalidMessage, StoreError
from bus.localized_text import AnyText, LocalizedText, localized
from bus.ports.broker_group import BrokerGroup
from bus.transports.chains.condition import group_state

_PAGE: Final = 500
_LONGEST_COUNT: Final = 3.0


class PendingCount(NamedTuple):
    """The number of pending deliveries; there may be more unless ``is_complete``."""

    deliveries: int
    is_complete: bool


class Place(NamedTuple):
    """A group of brokers of a destination.

    Attributes
    ----------
    state
        None where this process has no such group configured.
    has_messages
        Whether any message of the destination waits there; None where that is unknown.
    is_behind
        Whether it lacks a queue that the destination needs, as this process sees it.
    """

    name: str
    state: GroupState | None
    has_messages: bool | None
    is_behind: bool


class StrictOrder(NamedTuple):
    """One strictly ordered destination now.

    Attributes
    ----------
    chain
        None while it is not known, for the reason in ``trouble``.
    places
        The groups that are configured here or that the chain names, by name.
    """

    code: str
    chain: Chain | None
    trouble: AnyText
    places: Mapping[str, Place]
    obstacles: list[Obstacle]


class StrictOrders:
    """Reads chains from the coordinator, and the state of the broker groups that this process has configured.

    It never has a group surveyed (`BrokerGroup.standing`): that reads its queues beside those whose work it is.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.documents = ChainDocuments(context.chains.coordinator)

    def destination(self, code: str) -> Destination:
        """Return a strictly ordered destination.

        Raises
        ------
        InvalidDestination
            There is none of that code.
        InvalidMessage
            It keeps another order, or none.
        """
        found = self._context.registry.destination(code)
        if found.ordering is not Ordering.STRICT:
            raise InvalidMessage(
                localized("{code} keeps no strict order", code=repr(code)),
                hint=localized("see: {command}", command=f"bus destination show {code}"),
                field="code",
            )
        return found

    async def of(self, code: str) -> StrictOrder:
        """Return how a destination is; takes as long as the coordinator, 3 s at most."""
        destination = self.destination(code)
        try:
            chain = (await self.documents.read(code)).chain
        except StoreError as error:
            places = self._places(destination, Chain())
            return StrictOrder(code, None, no_chain(code, error.said), places, [])
        states, names = self._states(destination), self._context.registry.catalog.names(code)
        found = obstacles(code, chain, names, states, self._gone(chain))
        return StrictOrder(code, chain, "", self._places(destination, chain), found)

    async def held_up(self, code: str, subscription: str) -> LocalizedText | None:
        """Return why one subscription of a destination reads nothing; None when it can, or that is unknown."""
        destination = self.destination(code)
        try:
            chain = (await self.documents.read(code)).chain
        except StoreError as error:
            return no_chain(code, error.said)
        following = chain.next_for(subscription)
        read = tuple(one for one in chain.consume if not one.is_lost or one is following)  # it reads on to what is lost
        chain = msgspec.structs.replace(chain, consume=read)
        found = obstacles(code, chain, (subscription,), self._states(destination), self._gone(chain))
        return next((one.what for one in found if one.role is Role.READER), None)

    def waiting(self, destination: Destination, segment: Segment) -> dict[str, int | None]:
        """Return how many messages wait on a segment's group, by subscription that has not drained it.

        None where that is unknown, and for a segment that is lost.
        """
        group = self.group(destination, segment.group) if not segment.is_lost else None
        lags = (group.lags() if group is not None else None) or {}
        names = self._context.registry.catalog.names(destination.code)
        found = {name: lags.get((destination.code, name)) for name in names if name not in segment.drained}
        return {name: lag.records if lag is not None else None for name, lag in found.items()}

    async def pending(self, code: str, gaps: Sequence[Gap]) -> PendingCount:
        """Count the deliveries in gaps of a chain that are pending in the store, for some seconds at most.

        Raises
        ------
        StoreError
            The store does not answer.
        """
        end = self._context.clock.monotonic() + _LONGEST_COUNT
        names = self._context.registry.catalog.names(code)
        counts = [await self._pending_for(code, name, gaps, end) for name in names]
        return PendingCount(sum(one.deliveries for one in counts), all(one.is_complete for one in counts))

    async def _pending_for(self, code: str, name: str, gaps: Sequence[Gap], end: float) -> PendingCount:
        """Count the pending deliveries of one subscription, until a monotonic time."""
        selection = Selection(destination=code, subscription=name, status=Status.PENDING)
        count, cursor = 0, None
        while True:
            page = await self._context.store.search(selection, cursor=cursor, limit=_PAGE)
            epochs = [trace.message.epoch for trace in page.traces if trace.message is not None]
            count += sum(any(gap.holds(name, epoch) for gap in gaps) for epoch in epochs)
            cursor = page.next
            if cursor is None or self._context.clock.monotonic() >= end:
                return PendingCount(count, cursor is None)

    def group(self, destination: Destination, name: str) -> BrokerGroup | None:
        """Return a group of brokers; None where this process does not have it."""
        return self._context.chains.groups_of(destination.transport).get(name)

    def member(self, owner: str) -> Member | None:
        """Return the process that has a role; None when it is not alive."""
        return next((one for one in self._context.members.all if owner and one.owner == owner), None)

    def _states(self, destination: Destination) -> dict[str, GroupState]:
        chains = self._context.chains
        standings = chains.standings(destination.code)
        groups = chains.groups_of(destination.transport)
        return {name: group_state(group, standings.get(name)) for name, group in groups.items()}

    def _places(self, destination: Destination, chain: Chain) -> dict[str, Place]:
        code, states, behind = destination.code, self._states(destination), self._context.chains.behind
        names = {*states, *chain.send, *(segment.group for segment in chain.consume)}
        return {
            name: Place(name, states.get(name), self._has_messages(destination, name), (code, name) in behind)
            for name in sorted(names)
        }

    def _has_messages(self, destination: Destination, name: str) -> bool | None:
        """Whether a group holds any message of a destination; None where that is unknown."""
        group = self.group(destination, name)
        lags = group.lags() if group is not None else None
        if lags is None:
            return None
        known = [lags.get((destination.code, one)) for one in self._context.registry.catalog.names(destination.code)]
        return any(lag.records for lag in known if lag is not None) or (None if None in known else False)

    def _gone(self, chain: Chain) -> list[Role]:
        return [role for role in Role if chain.lease(role).owner and self.member(chain.lease(role).owner) is None]
