"""A forecast of the time when a disk will be full, from its recent growth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

import msgspec

from bus.domain.times import HOUR, MINUTE

WINDOW: Final = HOUR
"""Length (ms) of the past that a forecast uses."""
_FEWEST: Final = 10
_SHORTEST: Final = 15 * MINUTE
_TREND: Final = 3.0
"""Multiple of the samples' scatter by which they must have risen for that to be more than noise."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """Bytes that were in use at a time (ms)."""

    at: int
    used: int


def kept(samples: Sequence[Sample], fresh: Sample) -> list[Sample]:
    """Return the samples with a new one, without those that are too old, or of a clock that was put back since."""
    return [*(one for one in samples if fresh.at - WINDOW <= one.at < fresh.at), fresh]


def full_in(samples: Sequence[Sample], room: int) -> int | None:
    """Return in how many milliseconds ``room`` more bytes will be in use; None without a forecast.

    It extends the last hour by the median slope of every two samples, which a file that comes and goes and a log that
    is cut again and again do not move. Samples from before a large deletion do not count. There is no forecast from
    few samples, from samples of a short time, or from a rise no greater than their scatter.

    Parameters
    ----------
    samples
        In the order of time, some a minute at most: every two of them are looked at.
    """
    recent = _since_deletion(samples)
    if room <= 0:
        return 0
    if len(recent) < _FEWEST or (span := recent[-1].at - recent[0].at) < _SHORTEST:
        return None
    rate = _median((two.used - one.used) / (two.at - one.at) for one, two in combinations(recent, 2))
    if rate <= 0 or rate * span < _TREND * _scatter(recent, rate):
        return None
    return round(room / rate)


def _since_deletion(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples since use fell below all earlier ones, by more than the range of the earlier ones."""
    start, least, most = 0, samples[0].used if samples else 0, samples[0].used if samples else 0
    for number, one in enumerate(samples):
        if least - one.used > most - least and number - start > 1:
            start, least, most = number, one.used, one.used
        least, most = min(least, one.used), max(most, one.used)
    return samples[start:]


def _scatter(samples: Sequence[Sample], rate: float) -> float:
    """Return by how many bytes the middle one of the samples is off the line."""
    offsets = [one.used - rate * one.at for one in samples]
    middle = _median(offsets)
    return _median(abs(offset - middle) for offset in offsets)


def _median(values: Iterable[float]) -> float:
    """Return the middle one; of an even number the greater of both."""
    found = sorted(values)
    return found[len(found) // 2]
