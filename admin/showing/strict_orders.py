"""Strictly ordered destinations as people see them: their chain, their groups of brokers, and what blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from admin.repair.chain_documents import ChainDocuments
from bus.bootstrap import Context
from bus.cluster.member import Member
from bus.domain.destination import Destination, Ordering
from bus.domain.ordering.chain import Chain, Role, Segment
from bus.domain.ordering.obstacles import GroupState, Obstacle, no_chain, obstacles
from bus.errors import InvalidMessage, StoreError
from bus.ports.broker_group import BrokerGroup, Standing
from bus.sentences import Said, sentence
from bus.transports.chains.condition import group_state

_PATIENCE: Final = 3.0


class Place(NamedTuple):
    """A group of brokers of a destination.

    Attributes
    ----------
    state
        None where the process that tells this has no such group configured.
    is_behind
        Whether it lacks a queue that the destination needs, as that process knows.
    """

    name: str
    state: GroupState | None
    is_behind: bool


class StrictOrder(NamedTuple):
    """One strictly ordered destination now.

    Attributes
    ----------
    chain
        None while it is not known, for the reason in ``trouble``.
    version
        Of its document; 0 when nobody has begun it.
    places
        The groups that are configured here or that the chain names, by name.
    """

    code: str
    chain: Chain | None
    version: int
    trouble: Said
    places: Mapping[str, Place]
    obstacles: list[Obstacle]


class StrictOrders:
    """Asks the coordinator, and the groups of brokers that this process has, whichever its roles are."""

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
                sentence("{code} keeps no strict order", code=repr(code)),
                hint=sentence("see: {command}", command=f"bus destination show {code}"),
                field="code",
            )
        return found

    async def of(self, code: str) -> StrictOrder:
        """Return how a destination is; takes 3 s at most for the coordinator and as long for all groups at once."""
        destination = self.destination(code)
        states, (chain, version, trouble) = await asyncio.gather(self._states(destination), self._chain(code))
        if chain is None:
            return StrictOrder(code, None, version, trouble, self._places(code, states, Chain()), [])
        names = self._context.registry.catalog.names(code)
        found = obstacles(code, chain, names, states, self._gone(chain))
        return StrictOrder(code, chain, version, "", self._places(code, states, chain), found)

    def waiting(self, destination: Destination, segment: Segment) -> dict[str, int | None]:
        """Return how many messages wait on a segment's group, by subscription that has not drained it.

        None where nobody can say.
        """
        group = self.group(destination, segment.group)
        lags = (group.lags() if group is not None else None) or {}
        names = self._context.registry.catalog.names(destination.code)
        found = {name: lags.get((destination.code, name)) for name in names if name not in segment.drained}
        return {name: lag.records if lag is not None else None for name, lag in found.items()}

    def group(self, destination: Destination, name: str) -> BrokerGroup | None:
        """Return a group of brokers; None where this process does not have it."""
        return self._context.chains.groups_of(destination.transport).get(name)

    def member(self, owner: str) -> Member | None:
        """Return the process that has a role; None when it is not alive."""
        return next((one for one in self._context.members.all if owner and one.owner == owner), None)

    async def _chain(self, code: str) -> tuple[Chain | None, int, Said]:
        try:
            known = await self.documents.read(code)
        except StoreError as error:
            return None, 0, no_chain(code, error.said)
        return known.chain, known.version, ""

    async def _states(self, destination: Destination) -> dict[str, GroupState]:
        groups = self._context.chains.groups_of(destination.transport)
        standings = await asyncio.gather(*(self._standing(group, destination.code) for group in groups.values()))
        return {name: group_state(groups[name], said) for name, said in zip(groups, standings, strict=True)}

    async def _standing(self, group: BrokerGroup, code: str) -> Standing | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await group.standing(code, sorted(self._context.registry.catalog.names(code)))
        except TimeoutError:
            return None

    def _places(self, code: str, states: Mapping[str, GroupState], chain: Chain) -> dict[str, Place]:
        names = {*states, *chain.send, *(segment.group for segment in chain.consume)}
        behind = self._context.chains.behind
        return {name: Place(name, states.get(name), (code, name) in behind) for name in sorted(names)}

    def _gone(self, chain: Chain) -> list[Role]:
        return [role for role in Role if chain.lease(role).owner and self.member(chain.lease(role).owner) is None]
