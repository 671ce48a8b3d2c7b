"""Figures of a proof: judges note them where they judge, and the run's report adds them up for each test."""

from __future__ import annotations

from typing import Final

import msgspec


class Figures(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages that were sent, faults that were done, and what came of it over all subscriptions.

    A trace is false when it tells of a delivery another thing than the subscriber recorded. Inputs are those of
    a fuzzer.
    """

    messages: int = 0
    faults: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicates: int = 0
    false_traces: int = 0
    inputs: int = 0

    def __add__(self, other: Figures) -> Figures:
        """Return the sums."""
        mine, others = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Figures(*(one + more for one, more in zip(mine, others, strict=True)))


_noted: Final[list[Figures]] = []


def note(figures: Figures) -> None:
    """Have the test that runs tell these figures, too."""
    _noted.append(figures)


def take() -> Figures:
    """Return the sum of what was noted since the last call."""
    total = sum(_noted, Figures())
    _noted.clear()
    return total
