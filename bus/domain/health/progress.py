"""Progress of a backlog, judged by its recent movement and not by its size.

The rules are those by which Burrow judges consumer groups of Kafka, over a window of what was seen: no lag at any time
is well; a position that does not move while there is lag is stalled; one that moves while the lag never falls is too
slow; and one of which nothing was seen for longer than the window is stopped. A lag that stays as it is all the time is
well here: what is on its way to a subscriber counts as lag with the bus.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from bus.domain.times import MINUTE, SECOND

WINDOW: Final = 5 * MINUTE
"""Time (ms) that samples must cover to be judged."""
EVERY: Final = 30 * SECOND
"""Least time (ms) between two samples."""
_GAP: Final = 3 * MINUTE
_MOST: Final = WINDOW // EVERY + 1


class Verdict(enum.StrEnum):
    """State of the progress of a backlog, the best first."""

    WELL = "well"
    SLOW = "slow"
    STALLED = "stalled"
    STOPPED = "stopped"

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(Verdict).index(self)


class Observation(NamedTuple):
    """Position of a consumer at a time (ms), and how many records were left for it then."""

    at: int
    position: int
    lag: int


class Progress(NamedTuple):
    """Progress of a subscription's messages on a transport.

    Attributes
    ----------
    where
        Of several parts, those that are unhealthy: partitions, servers.
    since
        Since when (ms) its position has not moved, or its lag has not fallen.
    is_paused
        Whether it is paused on the broker.
    """

    verdict: Verdict
    where: tuple[str, ...] = ()
    since: int | None = None
    is_paused: bool = False


def judge(seen: Sequence[Observation], now: int) -> Verdict:
    """Return the progress of a consumer from its samples, in the order of time, and not later than ``now`` (ms).

    Samples that cover less than the window are judged as healthy.
    """
    if not seen or any(one.lag <= 0 for one in seen):
        return Verdict.WELL
    covered = seen[-1].at - seen[0].at
    if now - seen[-1].at > max(covered, WINDOW):
        return Verdict.STOPPED
    if covered < WINDOW:
        return Verdict.WELL
    never_fell = all(two.lag >= one.lag for one, two in pairwise(seen))
    if seen[-1].position == seen[0].position:
        return Verdict.STALLED if never_fell else Verdict.WELL
    return Verdict.SLOW if never_fell and seen[-1].lag > seen[0].lag else Verdict.WELL


class _Window(NamedTuple):
    seen: tuple[Observation, ...]
    looked_at: int


class Windows:
    """Samples of the parts of one subscription, by their names, ``""`` where it has none.

    Nothing is kept of a part without lag.
    """

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def is_due(self, now: int) -> bool:
        """Whether to look: whatever is kept was seen long enough ago."""
        return all(now - window.looked_at >= EVERY or now < window.looked_at for window in self._windows.values())

    def note(self, part: str, seen: Observation, *, is_alive: bool = True) -> None:
        """Add a sample of a part.

        Parameters
        ----------
        is_alive
            Whether there is a consumer, even if it did not move; without one nothing new was seen of it.
        """
        before = self._windows.get(part, _Window((), seen.at))
        if seen.lag <= 0:
            self._windows.pop(part, None)
            return
        gap = seen.at - before.looked_at
        is_new = not before.seen or not 0 <= gap <= _GAP or seen.position < before.seen[-1].position
        if is_new:
            kept: tuple[Observation, ...] = (seen,)
        elif is_alive or seen.position > before.seen[-1].position:
            kept = (*before.seen[-_MOST + 1 :], seen)
        else:
            kept = before.seen
        self._windows[part] = _Window(kept, seen.at)

    def forget(self, but: Iterable[str] = ()) -> None:
        """Forget all parts but these."""
        kept = set(but)
        self._windows = {part: window for part, window in self._windows.items() if part in kept}

    def progress(self, now: int) -> Progress:
        """Return how the subscription gets on: as its worst part."""
        verdicts = {part: judge(window.seen, now) for part, window in self._windows.items()}
        worst = max(verdicts.values(), key=lambda one: one.rank, default=Verdict.WELL)
        if worst is Verdict.WELL:
            return Progress(worst)
        parts = [part for part, one in verdicts.items() if one is worst]
        since = min(_since(self._windows[part].seen) for part in parts)
        return Progress(worst, tuple(sorted(filter(None, parts))), since)


def _since(seen: Sequence[Observation]) -> int:
    """Return since when the position has been the last one; where it moves, the time of the first sample."""
    same = [one.at for one in seen if one.position == seen[-1].position]
    return same[0] if len(same) > 1 else seen[0].at


def worst(found: Iterable[Mapping[tuple[str, str], Progress]]) -> dict[tuple[str, str], Progress]:
    """Return the worst progress of each subscription on any of several transports."""
    kept: dict[tuple[str, str], Progress] = {}
    for one in found:
        for lane, progress in one.items():
            if lane not in kept or progress.verdict.rank > kept[lane].verdict.rank:
                kept[lane] = progress
    return kept
