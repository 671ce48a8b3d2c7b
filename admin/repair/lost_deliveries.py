"""Deliveries of strictly ordered destinations that no group of brokers has any more: a person may have them resent."""

from __future__ import annotations

from typing import Final

from admin.repair.chain_documents import ChainDocuments
from bus.domain.delivery.delivery import Status
from bus.domain.destination import Ordering
from bus.domain.ordering.chain import Chain, Whereabouts
from bus.domain.tracing.trace import Trace
from bus.ports.clock import Clock
from bus.registry import Registry

_FOR: Final = 1.0


class LostDeliveries:
    """Says where pending messages are, by the chains of their destinations, each read once a second at most."""

    def __init__(self, documents: ChainDocuments, registry: Registry, clock: Clock) -> None:
        self._documents = documents
        self._registry = registry
        self._clock = clock
        self._known: dict[str, tuple[float, Chain]] = {}

    async def names(self, trace: Trace) -> frozenset[str]:
        """Return the subscriptions whose delivery of a message is pending and on no group of brokers any more.

        Raises
        ------
        StoreError
            The coordinator does not give the chain.
        """
        pending = [name for name, found in trace.deliveries.items() if found.status is Status.PENDING]
        return frozenset([name for name in pending if await self.is_on_no_group(trace, name)])

    async def is_on_no_group(self, trace: Trace, subscription: str) -> bool:
        """Whether no group of brokers has a pending message for a subscription any more. Raises as ``names``.

        It was lost with its group, or its group was read to its end and it is older than ``stuck_after``: a younger one
        may have been delivered just now.
        """
        where = await self.whereabouts(trace, subscription)
        return where is Whereabouts.LOST or (where is Whereabouts.READ and self.is_overdue(trace, subscription))

    def is_overdue(self, trace: Trace, subscription: str) -> bool:
        """Whether a stored message is older than the ``stuck_after`` of a subscription; False if the store lacks it."""
        found = self._registry.catalog.subscriptions.get((trace.destination, subscription))
        if found is None or trace.message is None:
            return False
        return self._clock.now() - trace.message.received_at >= found.stuck_after

    async def whereabouts(self, trace: Trace, subscription: str) -> Whereabouts | None:
        """Return where a message is that a subscription did not get; None where no chain has it. Raises as ``names``.

        Chains hold no messages of other destinations, and none that an earlier version accepted.
        """
        destination = self._registry.catalog.destinations.get(trace.destination)
        if destination is None or destination.ordering is not Ordering.STRICT:
            return None
        if trace.message is None or not trace.message.epoch:
            return None
        return (await self._chain(trace.destination)).whereabouts(subscription, trace.message.epoch)

    async def _chain(self, code: str) -> Chain:
        now = self._clock.monotonic()
        read_at, chain = self._known.get(code, (0.0, None))
        if chain is None or now - read_at >= _FOR:
            chain = (await self._documents.read(code)).chain
            self._known[code] = now, chain
        return chain
