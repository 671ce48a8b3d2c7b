"""The health of a store, besides that it answers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bus.domain.health.vitals import StoreFigures


@runtime_checkable
class StoreHealth(Protocol):
    """What a store has besides that can tell how its servers or its files are."""

    async def health(self) -> StoreFigures:
        """Return that; it is asked seldom. What the store does not tell, or may not tell this login, is left out.

        Raises
        ------
        StoreUnavailable
            It does not answer.
        """
        ...
