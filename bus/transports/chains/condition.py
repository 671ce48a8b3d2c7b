"""The health of groups of brokers, and what is wrong with a strictly ordered destination."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from bus.domain.ordering.chain import Chain, Role
from bus.domain.ordering.obstacles import GroupState, no_chain, obstacles
from bus.errors import StoreError
from bus.localized_text import AnyText, joined, localized
from bus.ports.broker_group import BrokerGroup, GroupStatus
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore

_log = logging.getLogger(__name__)
_EVERY: Final = 5.0
_NOWHERE: Final = "doctor"


def group_state(group: BrokerGroup, standing: GroupStatus | None) -> GroupState:
    """Return the state of a group as this process sees it, with its last answer; sends no request."""
    return GroupState(group.lags() is not None, group.condition(), standing)


def trouble_of(
    code: str,
    held: Mapping[Role, Chain | None],
    trouble: AnyText,
    subscriptions: Collection[str],
    states: Mapping[str, GroupState],
) -> AnyText:
    """Return what delays a destination, and what to do about it, from a process that has some of its roles.

    Of several processes each reports the obstacles of its own roles; all report a coordinator that does not answer.

    Parameters
    ----------
    held
        The chain as seen by each of these roles.
    trouble
        Why the coordinator's last request failed.
    """
    if trouble:
        return no_chain(code, trouble)
    return joined(
        localized("{first}; {second}", first=one.what, second=one.next_step)
        for role, chain in held.items()
        if chain is not None
        for one in obstacles(code, chain, subscriptions, states)
        if one.role is role
    )


class CoordinatorWatch:
    """Looks now and then whether a coordinator answers, also while no destination needs it.

    Attributes
    ----------
    trouble
        Why it did not answer last; empty when it did.
    """

    def __init__(self, coordinator: DocumentStore, clock: Clock) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self.trouble: AnyText = ""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(_EVERY)

    async def look(self) -> None:
        """Read a document that need not be there."""
        try:
            await self._coordinator.get(_NOWHERE, _NOWHERE)
        except StoreError as error:
            _log.debug("the coordinator does not answer: %s", error)
            self.trouble = error.said
        else:
            self.trouble = ""
