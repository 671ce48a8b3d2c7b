"""Names that the receivers of one port accepted lately: ids of messages, and keys under which they repeat."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class ClaimResult(NamedTuple):
    """What became of names that a receiver wants to accept.

    Attributes
    ----------
    known
        Those accepted before, each with what was said of it.
    doubtful
        Those of which only the store can tell whether they were accepted.
    storing
        Those that another call is storing now, or was when its process ended. Only if there are no such and no doubtful
        names, the other names belong to the caller, who settles each.
    is_locked
        Nothing is known now: another process works on the claims.
    """

    known: Mapping[bytes, bytes]
    doubtful: Collection[bytes] = ()
    storing: Collection[bytes] = ()
    is_locked: bool = False


class Claims(Protocol):
    """Names of which each is accepted once by all who share them, on one machine."""

    def claim(self, names: Collection[bytes], asked: Collection[bytes]) -> ClaimResult:
        """Claim names for the caller, if it can have all that are not accepted yet.

        Parameters
        ----------
        asked
            Those of which the store, asked by the caller, has told that they were not accepted; they are nobody's.
        """
        ...

    def recover(self, accepted: Mapping[bytes, bytes]) -> None:
        """Settle what an earlier life of this process was storing when it ended.

        Parameters
        ----------
        accepted
            What this process has on its disk, with what is to be said of each. Of the others the store is asked.
        """
        ...

    def settle(self, accepted: Mapping[bytes, bytes], refused: Collection[bytes]) -> None:
        """Say what became of claimed names: ``accepted`` are durable, each with what is to be said of it."""
        ...
