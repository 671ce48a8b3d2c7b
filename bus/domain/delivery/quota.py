"""The share of a spool that one stream may fill."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_SHARE: Final = 0.66
"""The part that one destination may fill: it alone never takes the last third of a spool."""
A_LITTLE: Final = 1 << 20
"""Bytes that a stream may hold of messages accepted before, even with the disk at its reserve, so that they flow."""


class SpoolCapacity(NamedTuple):
    """Bytes of a spool: ``held`` by one stream of the ``total`` of all; ``free`` is the remaining capacity.

    ``free`` respects the limit and the disk's reserve; below zero when the disk is under its reserve.
    """

    held: int
    total: int
    free: int

    def takes(self, share: float, size: int) -> bool:
        """Whether the stream may take ``size`` more bytes without exceeding its share of the spool's capacity.

        One record of any size fits into a stream that holds nothing. When the spool has no free capacity at all, the
        answer is True, since the spool then refuses by itself.
        """
        if self.held == 0 or self.free <= 0:
            return True
        return self.held + size <= share * (self.total + self.free)

    def moves(self, share: float, size: int) -> bool:
        """Whether the stream may take ``size`` more of messages accepted before, which may use the disk's reserve.

        The share is the same; with the disk at its reserve a few bytes of every stream still flow.
        """
        if self.held == 0 or self.free > 0:
            return self.takes(share, size)
        return self.held + size <= A_LITTLE

    def after(self, size: int) -> SpoolCapacity:
        """Return the capacity that is left once the stream has taken ``size`` more."""
        return SpoolCapacity(self.held + size, self.total + size, self.free - size)
