"""The time for which deliveries stood still after each fault of a run: the times of a fail-over."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

_AFTER = 30.0  # seconds in which what was done still counts as the cause


class Stalls:
    """Notes when something was done, and measures the longest pause of deliveries behind it."""

    def __init__(self) -> None:
        self._done: list[tuple[str, float]] = []

    def noting(self, what: str, strike: Callable[[], None]) -> Callable[[], None]:
        """Return what does the same, and notes when."""

        def strike_and_note() -> None:
            self._done.append((what, time.time()))
            strike()

        return strike_and_note

    def seconds(self, deliveries: Sequence[float]) -> Mapping[str, list[float]]:
        """Return, by what was done, the longest pause that began before the next thing was done."""
        found: dict[str, list[float]] = defaultdict(list)
        ends = [at for _, at in self._done[1:]] + [float("inf")]
        for (what, at), end in zip(self._done, ends, strict=True):
            pauses = [
                later - max(at, earlier)
                for earlier, later in itertools.pairwise(deliveries)
                if later > at and earlier < min(end, at + _AFTER)
            ]
            found[what].append(max(pauses, default=0.0))
        return found

    def table(self, deliveries: Sequence[float]) -> str:
        """Return a line for each kind: how often, and the median and the longest pause in seconds."""
        rows = self.seconds(deliveries).items()
        return "\n".join(
            f"{what:40} x{len(all_):2}  p50 {statistics.median(all_):5.2f} s  max {max(all_):5.2f} s"
            for what, all_ in rows
        )
