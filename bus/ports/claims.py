"""Names that the receivers of one port accepted lately: ids of messages, and keys under which they repeat."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class Claimed(NamedTuple):
    """What became of names that a receiver wants to accept.

    Attributes
    ----------
    known
        Those accepted before, each with what was said of it.
    doubtful
        Those of which only the store can tell whether they were accepted.
    storing
        Those that another call is storing now. Only if there are no such and no doubtful names, the other names belong
        to the caller, who settles each.
    """

    known: Mapping[bytes, bytes]
    doubtful: Collection[bytes] = ()
    storing: Collection[bytes] = ()


class Claims(Protocol):
    """Names of which each is accepted once by all who share them, on one machine."""

    def claim(self, names: Collection[bytes], asked: Collection[bytes]) -> Claimed:
        """Claim names for the caller, if it can have all that are not accepted yet.

        Parameters
        ----------
        asked
            Those of which the store, asked by the caller, has told that they were not accepted; they are nobody's.
        """
        ...

    def settle(self, accepted: Mapping[bytes, bytes], refused: Collection[bytes]) -> None:
        """Say what became of claimed names: ``accepted`` are durable, each with what is to be said of it."""
        ...
