"""All groups of brokers of one transport, as the transport of its strictly ordered destinations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from bus.domain.destination import Destination, strict_carrier
from bus.domain.subscription import Subscription
from bus.errors import InvalidDestination, TransportError
from bus.localized_text import AnyText, localized
from bus.ports.broker_group import BrokerGroup
from bus.ports.transport import Lag, OutgoingMessage
from bus.transports.chains.chains import Chains
from bus.transports.chains.consumer import ChainConsumer

_log = logging.getLogger(__name__)
_FEWEST: Final = 2
_REPAIR: Final = 5.0


class ChainTransport:
    """Makes the queues of destinations on every group, and consumers of their chains; `Chains` writes to them."""

    def __init__(self, transport: str, groups: Mapping[str, BrokerGroup], chains: Chains) -> None:
        self._transport = transport
        self._groups = groups
        self._chains = chains
        self._wanted: dict[str, tuple[Destination, dict[str, Subscription]]] = {}

    @property
    def name(self) -> str:
        """Return ``kafka-groups``, say."""
        return strict_carrier(self._transport)

    def check(self, destination: Destination) -> None:
        """Refuse a destination that brokers cannot carry, and a strict order with fewer than two groups."""
        if len(self._groups) < _FEWEST:
            raise InvalidDestination(
                localized(
                    "a strict order needs two groups of brokers at least; here are {count}",
                    count=len(self._groups),
                ),
                hint=localized("name more of them in {setting}", setting=f"{self._transport}_groups"),
                field="ordering",
            )
        for group in self._groups.values():
            group.check(destination)

    async def run(self) -> None:
        """Keep all groups up, and retry what could not be made."""
        async with asyncio.TaskGroup() as group:
            for one in self._groups.values():
                group.create_task(one.run())
            while True:
                await asyncio.sleep(_REPAIR)
                await self._repair()

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the queues on every group that answers; on the others later, before they accept messages."""
        _, known = self._wanted.get(destination.code, (destination, {}))
        wanted = known | {found.name: found for found in subscriptions}
        self._wanted[destination.code] = destination, wanted
        await self._on_any(destination.code, lambda group: group.ensure(destination, list(wanted.values())))

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue on every group that answers."""
        _, wanted = self._wanted.get(destination, (None, {}))
        wanted.pop(subscription, None)
        if not wanted:  # so that nothing of a destination that is gone is made again
            self._wanted.pop(destination, None)
        await asyncio.gather(*(group.remove(destination, subscription) for group in self._groups.values()))

    async def publish(self, batch: Sequence[OutgoingMessage]) -> Sequence[bool | None]:
        """Confirm accepted messages: they were written before (`Chains.send`)."""
        return [True] * len(batch)

    async def consume(self, destination: str, subscription: str) -> ChainConsumer:
        """Return the consumer of a chain."""
        return self._chains.consumer(destination, subscription)

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the messages that the groups that answer hold together; None while none does."""
        found = [lags for group in self._groups.values() if (lags := group.lags()) is not None]
        if not found:
            return None
        keys = {key for lags in found for key in lags}
        return {key: _sum([lags[key] for lags in found if key in lags]) for key in keys}

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each group."""
        return {f"{self._transport} group {name}": group.condition() for name, group in self._groups.items()}

    async def close(self) -> None:
        """Leave all groups."""
        await asyncio.gather(*(group.close() for group in self._groups.values()))

    async def _on_any(self, code: str, act: Callable[[BrokerGroup], Awaitable[None]]) -> None:
        """Do something on every group; raises what they raise when none did it."""
        names = list(self._groups)
        found = await asyncio.gather(*(act(self._groups[name]) for name in names), return_exceptions=True)
        failed = {name: error for name, error in zip(names, found, strict=True) if isinstance(error, BaseException)}
        for error in failed.values():
            if not isinstance(error, TransportError):
                raise error
        self._chains.behind -= {(code, name) for name in names}
        self._chains.behind |= {(code, name) for name in failed}
        if len(failed) == len(names):
            raise next(iter(failed.values()))
        for name, error in failed.items():
            _log.warning("what %s needs on group %s is made later: %s", code, name, error)

    async def _repair(self) -> None:
        for code, name in sorted(self._chains.behind):
            wanted = self._wanted.get(code)
            if wanted is None or name not in self._groups:
                continue
            destination, subscriptions = wanted
            try:
                await self._groups[name].ensure(destination, list(subscriptions.values()))
            except TransportError as error:
                _log.debug("what %s needs on group %s is still missing: %s", code, name, error)
            else:
                if self._wanted.get(code) is wanted:  # else more has come meanwhile, of which this says nothing
                    self._chains.behind.discard((code, name))


def _sum(lags: Sequence[Lag]) -> Lag:
    oldest = [lag.oldest for lag in lags if lag.oldest is not None]
    return Lag(sum(lag.records for lag in lags), min(oldest, default=None))
