"""Statistics for display: counters grouped, and figures derived from them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from bus.domain.statistics.latency import quantile
from bus.domain.statistics.rollup import DeliveryCounts, Sheet

Name = tuple[str, ...]


class SeriesGrouping(enum.StrEnum):
    """Property by which counters are grouped into series."""

    DESTINATION = "destination"
    SUBSCRIPTION = "subscription"
    SOURCE = "source"


NAMES: dict[SeriesGrouping | None, Name] = {
    None: (),
    SeriesGrouping.DESTINATION: ("destination",),
    SeriesGrouping.SUBSCRIPTION: ("destination", "subscription"),
    SeriesGrouping.SOURCE: ("source",),
}
"""Parts of a series' name, by grouping."""


class Figures(msgspec.Struct):
    """Counters of one series in one period, or over all of them."""

    accepted: int = 0
    counts: DeliveryCounts = msgspec.field(default_factory=DeliveryCounts)

    def add(self, other: Figures) -> None:
        """Add the counters of another one."""
        self.accepted += other.accepted
        self.counts.add(other.counts)

    @property
    def volume(self) -> int:
        """Accepted messages, attempts and ended deliveries together, by which series are ordered."""
        return self.accepted + self.counts.attempts + sum(self.counts.ended.values())

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that delivered; None without any."""
        attempts = self.counts.attempts
        return (attempts - self.counts.failed) / attempts if attempts else None

    def latency(self, share: float) -> float | None:
        """Return the time (ms) that this share of first deliveries did not exceed, see ``statistics.latency``."""
        return quantile(self.counts.latency, share)


class Series(NamedTuple):
    """The figures of one name, in all and by period; ``points`` is by the start (ms) of periods that have some."""

    name: Name
    total: Figures
    points: dict[int, Figures]


def series_of(sheets: dict[int, Sheet], by: SeriesGrouping | None, wanted: Callable[[str], bool]) -> list[Series]:
    """Return the series of the given destinations, the busiest first; ``sheets`` are by the start of their period."""
    found: dict[Name, Series] = {}
    for start in sorted(sheets):
        for name, figures in _parts(sheets[start], by, wanted):
            series = found.setdefault(name, Series(name, Figures(), {}))
            series.total.add(figures)
            series.points.setdefault(start, Figures()).add(figures)
    return sorted(found.values(), key=lambda one: (-one.total.volume, one.name))


def _parts(sheet: Sheet, by: SeriesGrouping | None, wanted: Callable[[str], bool]) -> Iterator[tuple[Name, Figures]]:
    if by is not SeriesGrouping.SUBSCRIPTION:
        for destination in filter(wanted, sheet.accepted):
            for source, count in sheet.accepted[destination].items():
                yield _name(by, destination, source), Figures(count)
    if by is not SeriesGrouping.SOURCE:
        for destination in filter(wanted, sheet.deliveries):
            for subscription, counts in sheet.deliveries[destination].items():
                yield _name(by, destination, subscription), Figures(0, counts)


def _name(by: SeriesGrouping | None, destination: str, other: str) -> Name:
    parts = {"destination": destination, "subscription": other, "source": other}
    return tuple(parts[part] for part in NAMES[by])
