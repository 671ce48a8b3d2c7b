"""When hours outside of their norms make an alarm."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.norms.metrics import Norms
from pipeline.norms.weeks import Floats

Flags = NDArray[np.bool_]
NEEDED: Final = 2
WINDOWS: Final = 3


def out_of(norms: Norms, values: Floats) -> Flags:
    """Return which of the 168 hours of a week are outside of their norms; unknown values and limits never are."""
    with np.errstate(invalid="ignore"):
        return (values < norms.low) | (values > norms.high)


def alarmed(out: Flags) -> Flags:
    """Return at which of consecutive hours there is an alarm: two of the last three are out."""
    seen = np.concatenate([np.zeros(WINDOWS - 1, dtype=np.int64), out.astype(np.int64)])
    return np.asarray(np.convolve(seen, np.ones(WINDOWS, dtype=np.int64), mode="valid") >= NEEDED)


def begun(alarms: Flags) -> int:
    """Return how many alarms there were: consecutive hours of alarm are one."""
    return int(np.count_nonzero(alarms & ~np.concatenate([[False], alarms[:-1]])))
