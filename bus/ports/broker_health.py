"""The health of a cluster of brokers as its administration reports it, beyond the view of its clients."""

from __future__ import annotations

from typing import Protocol

from bus.domain.health.vitals import BrokerFigures


class BrokerHealth(Protocol):
    """Reads the health of one cluster. One process of the bus calls it rarely, so that it is no load."""

    @property
    def cluster(self) -> str:
        """The name of the cluster, as in the conditions of its transport."""
        ...

    async def look(self) -> BrokerFigures:
        """Return the present state of the cluster; has its own deadline, and bounds what it reads.

        Raises
        ------
        TransportError
            The cluster does not answer, refuses, or sends something else.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
