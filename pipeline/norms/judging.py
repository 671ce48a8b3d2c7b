"""The rule by which hours outside of their norms become an alarm."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.norms.weeks import Floats

Flags = NDArray[np.bool_]
NEEDED: Final = 2
WINDOWS: Final = 3


class Limits(Protocol):
    """The limits of hours, such as ``Norms``; NaN where there is none."""

    @property
    def low(self) -> Floats:
        """Below which an hour is out."""
        ...

    @property
    def high(self) -> Floats:
        """Above which an hour is out."""
        ...


def out_of(limits: Limits, values: Floats) -> Flags:
    """Return the hours that are outside of their limits; unknown values and limits never are."""
    with np.errstate(invalid="ignore"):
        return (values < limits.low) | (values > limits.high)


def alarmed(out: Flags) -> Flags:
    """Return at which of consecutive hours there is an alarm: two of the last three are out."""
    seen = np.concatenate([np.zeros(WINDOWS - 1, dtype=np.int64), out.astype(np.int64)])
    return np.asarray(np.convolve(seen, np.ones(WINDOWS, dtype=np.int64), mode="valid") >= NEEDED)


def begun(alarms: Flags) -> int:
    """Return how many alarms there were: consecutive hours of alarm are one."""
    return int(np.count_nonzero(alarms & ~np.concatenate([[False], alarms[:-1]])))
