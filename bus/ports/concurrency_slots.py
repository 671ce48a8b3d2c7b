"""Slots for requests in flight, and the rate, of a subscription that several processes of one machine deliver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol


class Slots(Protocol):
    """The slots of one subscription that one worker holds."""

    @property
    def is_waiting(self) -> bool:
        """Whether the last ``take`` found no free slot."""
        ...

    def take(self, limit: int) -> float:
        """Take one of the first ``limit`` slots.

        Returns 0 when one was taken; else in how many seconds to try again, unless ``freed`` is called before.
        """
        ...

    def give_back(self) -> None:
        """Give back a slot whose request has ended; a process that waits for one is woken."""
        ...

    def exceeds(self, limit: int) -> bool:
        """Whether a held slot is not one of the first ``limit``."""
        ...

    def spend(self, count: int) -> None:
        """Report to the other processes that so many messages of the rate went out."""
        ...

    def close(self) -> None:
        """Wait for no slot any more; those of requests in flight are given back when these end."""
        ...


class SlotPool(Protocol):
    """The slots that the processes of one machine share."""

    def join(self, name: str, freed: Callable[[], None], spent: Callable[[int], None]) -> Slots:
        """Return the slots of a subscription, for the only worker that this process has for it.

        Parameters
        ----------
        freed
            Called when a slot may be free for which this worker waited.
        spent
            Called with the number of messages of the rate that another process sent.
        """
        ...

    def part(self, share: int) -> int:
        """Return how many of ``share`` slots count as this process's, so that the parts of all add up to it."""
        ...


class OwnSlots:
    """Slots of a worker that shares them with no other: its own count of requests is its limit."""

    is_waiting = False

    def take(self, limit: int) -> float:  # noqa: ARG002 - the port has it
        """Return 0."""
        return 0.0

    def give_back(self) -> None:
        """Do nothing."""

    def exceeds(self, limit: int) -> bool:  # noqa: ARG002 - the port has it
        """Return False."""
        return False

    def spend(self, count: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class OwnPool:
    """The pool of a process that shares slots with no other on its machine."""

    def join(self, name: str, freed: Callable[[], None], spent: Callable[[int], None]) -> OwnSlots:  # noqa: ARG002
        """Return slots without a limit of their own."""
        return OwnSlots()

    def part(self, share: int) -> int:
        """Return all of them."""
        return share


OWN_SLOTS: Final = OwnPool()
