"""Recently accepted names of the receivers of one port: ids of messages, and idempotency keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class ClaimResult(NamedTuple):
    """Result of claiming names that a receiver wants to accept.

    Attributes
    ----------
    known
        Names accepted before, each with its answer.
    doubtful
        Names for which only the store shows whether they were accepted.
    storing
        Names that another call is storing now, or was when its process ended. Only if there are no such and no doubtful
        names, the other names belong to the caller, which settles each.
    is_locked
        No result now: another process works on the claims.
    """

    known: Mapping[bytes, bytes]
    doubtful: Collection[bytes] = ()
    storing: Collection[bytes] = ()
    is_locked: bool = False


class Claims(Protocol):
    """Names of which each is accepted once by all processes that share them, on one machine."""

    def claim(self, names: Collection[bytes], asked: Collection[bytes]) -> ClaimResult:
        """Claim names for the caller, if it can have all that are not accepted yet.

        Parameters
        ----------
        asked
            Names that the store, asked by the caller, reported as not accepted; no call owns them.
        """
        ...

    def recover(self, accepted: Mapping[bytes, bytes]) -> None:
        """Settle the names that an earlier run of this process was storing when it ended.

        Parameters
        ----------
        accepted
            Names that this process has on its disk, each with its answer. The store is asked for the others.
        """
        ...

    def settle(self, accepted: Mapping[bytes, bytes], refused: Collection[bytes]) -> None:
        """Settle claimed names: ``accepted`` are durable, each with its answer."""
        ...
