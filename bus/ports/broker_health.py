"""The health of a cluster of brokers by its own administration, beyond the sight of its clients."""

from __future__ import annotations

from typing import Protocol

from bus.domain.health.vitals import BrokerFigures


class BrokerHealth(Protocol):
    """Looks at one cluster. It is asked seldom, by one process of the bus, and is no load."""

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
