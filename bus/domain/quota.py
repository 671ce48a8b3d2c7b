"""How much of what all share one may take."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_SHARE: Final = 0.66
"""One destination alone never takes the last third of a spool."""


class Room(NamedTuple):
    """Bytes of a spool: ``held`` by one lane of the ``total`` of all; ``free`` is what it could still take."""

    held: int
    total: int
    free: int

    def takes(self, share: float, size: int) -> bool:
        """Whether the lane may take ``size`` more without holding over its share of what the spool can hold.

        One record of any size fits into a lane that holds nothing. A spool that takes nothing from anybody refuses
        by itself.
        """
        if self.held == 0 or self.free <= 0:
            return True
        return self.held + size <= share * (self.total + self.free)

    def after(self, size: int) -> Room:
        """Return what it is once the lane has taken ``size`` more."""
        return Room(self.held + size, self.total + size, self.free - size)
