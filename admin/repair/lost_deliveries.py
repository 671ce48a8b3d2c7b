"""Deliveries of strictly ordered destinations that no group of brokers has any more: a person may have them resent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admin.repair.chain_documents import ChainDocuments
from bus.domain.delivery.delivery import Status
from bus.domain.destination import Ordering
from bus.domain.ordering.chain import Chain, Whereabouts
from bus.domain.tracing.trace import Trace
from bus.registry import Registry

_FOR: Final = 1.0
WhereIs = Callable[[str, int], Whereabouts]


class LostDeliveries:
    """Says where pending messages are, by the chains of their destinations, each read once a second at most.

    Parameters
    ----------
    monotonic
        Seconds.
    """

    def __init__(self, documents: ChainDocuments, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._documents = documents
        self._registry = registry
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, Chain]] = {}

    async def names(self, trace: Trace) -> frozenset[str]:
        """Return the subscriptions whose delivery of a message is pending and lost with a group of brokers.

        Raises
        ------
        StoreError
            The coordinator does not give the chain.
        """
        pending = [name for name, found in trace.deliveries.items() if found.status is Status.PENDING]
        found = {name: await self.whereabouts(trace, name) for name in pending}
        return frozenset(name for name, where in found.items() if where is Whereabouts.LOST)

    async def whereabouts(self, trace: Trace, subscription: str) -> Whereabouts | None:
        """Return where a message is that a subscription did not get; None where no chain tells. Raises as ``names``.

        None tells of other destinations, and of messages that an earlier version accepted.
        """
        destination = self._registry.catalog.destinations.get(trace.destination)
        if destination is None or destination.ordering is not Ordering.STRICT:
            return None
        if trace.message is None or not trace.message.epoch:
            return None
        return (await self._chain(trace.destination)).whereabouts(subscription, trace.message.epoch)

    async def _chain(self, code: str) -> Chain:
        now = self._monotonic()
        read_at, chain = self._known.get(code, (0.0, None))
        if chain is None or now - read_at >= _FOR:
            chain = (await self._documents.read(code)).chain
            self._known[code] = now, chain
        return chain
