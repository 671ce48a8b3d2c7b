"""The health of a store, besides that it answers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bus.domain.health.vitals import StoreFigures


@runtime_checkable
class StoreHealth(Protocol):
    """A store that can report the state of its servers or files."""

    async def health(self) -> StoreFigures:
        """Return the state; called rarely. Values that the store lacks, or hides from this login, are left out.

        Raises
        ------
        StoreUnavailable
            It does not answer.
        """
        ...
