"""A figure over something that grows: its points, measured in turns, as rows and as the lines of a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.report import Row
from bench.run import Run
from bench.systems import Nsq, Pier

SECTION = "curves"
SYSTEMS = (Pier.name, Nsq.name)
LABELS = {Pier.name: "Pier", Nsq.name: "nsqd + nsq_to_http"}
Points = Mapping[int, Sequence[float]]
"""By what grows: a value for each round."""


class Line(NamedTuple):
    """The points of one system."""

    label: str
    points: Points
    is_reference: bool = False


class Curve(NamedTuple):
    """A picture; ``x`` and ``y`` say what the axes show, with the unit."""

    name: str
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    is_log: bool = False

    def save(self, run: Run) -> None:
        """Draw it where the run has its pictures, which may be nowhere."""
        if run.pictures is not None:
            from bench.curves.picture import draw  # noqa: PLC0415 - what draws takes a second to load

            draw(self, run.pictures / f"{self.name}.png")


def up_to(most: int, *points: int) -> list[int]:
    """Return the points that a run of this size goes to."""
    return [point for point in points if point <= most]


def in_turns(
    points: Sequence[int], rounds: int, measure: Callable[[str, int], float]
) -> dict[str, dict[int, list[float]]]:
    """Measure every point of both systems, round by round, in the opposite order every other round."""
    found: dict[str, dict[int, list[float]]] = {name: {point: [] for point in points} for name in SYSTEMS}
    for point in points:
        for round_ in range(rounds):
            for name in SYSTEMS[:: (-1) ** round_]:
                found[name][point].append(measure(name, point))
    return found


def rows(figure: Callable[[int], str], unit: str, ours: Points, theirs: Points, *, lower: bool = False) -> list[Row]:
    """Return a row for each point that both systems have."""
    return [
        Row(SECTION, figure(point), values, unit, Nsq.name, theirs[point], lower=lower)
        for point, values in ours.items()
        if point in theirs
    ]


def counted(number: int, what: str) -> str:
    """Return a number of things: "1 process", "4 processes"."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"
