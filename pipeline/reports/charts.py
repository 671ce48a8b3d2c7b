"""Charts of hours as inline SVG: the band that is usual, the norm, the values, and the hours that are out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

_LABELS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TALL: Final = 200  # pixels of height from which a chart has labels
_DAY: Final = 24


class Point(NamedTuple):
    """One hour; None where there is none. Without ``low`` or ``high`` the band has no end on that side."""

    hour: int
    value: float | None
    norm: float | None
    low: float | None
    high: float | None

    @property
    def is_out(self) -> bool:
        """Whether the value is outside the band."""
        if self.value is None:
            return False
        below = self.low is not None and self.value < self.low
        return below or (self.high is not None and self.value > self.high)


class _Frame(NamedTuple):
    """The area of the plot, and the coordinates of hours and values in it."""

    width: int
    height: int
    left: int
    bottom: int
    hours: int
    most: float

    def x(self, place: float) -> str:
        return f"{self.left + place / max(self.hours - 1, 1) * (self.width - self.left - 6):.1f}"

    def y(self, value: float) -> str:
        usable = self.height - self.bottom - 8
        return f"{8 + usable - min(max(value, 0.0), self.most) / self.most * usable:.1f}"


def chart(points: Sequence[Point], *, width: int, height: int, label: str, first_weekday: int) -> str:
    """Return the picture of consecutive hours.

    Parameters
    ----------
    label
        What it shows, for screen readers.
    first_weekday
        The day of the week of the first point, 0 for Monday.
    """
    is_large = height >= _TALL
    frame = _Frame(width, height, 48 if is_large else 4, 22 if is_large else 4, len(points), _most(points))
    parts = [
        *_days(frame, points, first_weekday, is_large=is_large),
        *(_scale(frame) if is_large else ()),
        *_band(frame, points),
        *_lines(frame, "norm", [point.norm for point in points]),
        *_lines(frame, "value", [point.value for point in points]),
        *_outs(frame, points, radius=3.5 if is_large else 2.5),
    ]
    body = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{body}</svg>'


def _most(points: Sequence[Point]) -> float:
    values = [value for point in points for value in (point.value, point.norm) if value is not None]
    ends = sorted(point.high for point in points if point.high is not None)
    # One hour with a wide band must not flatten all the others.
    usual = ends[int(len(ends) * 0.95)] if ends else 0.0
    return max([*values, usual]) * 1.05 or 1.0


def _days(frame: _Frame, points: Sequence[Point], first_weekday: int, *, is_large: bool) -> Iterator[str]:
    foot = frame.height - frame.bottom
    for place in range(len(points)):
        if points[place].hour % _DAY == 0:
            x = frame.x(place)
            yield f'<line class="day" x1="{x}" x2="{x}" y1="8" y2="{foot}"/>'
            if is_large:
                day = (first_weekday + (points[place].hour // _DAY - points[0].hour // _DAY)) % 7
                yield f'<text x="{float(x) + 4:.1f}" y="{frame.height - 6}">{_LABELS[day]}</text>'


def _scale(frame: _Frame) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        value = frame.most / 1.05 * share
        y = frame.y(value)
        yield f'<line class="grid" x1="{frame.left}" x2="{frame.width - 6}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{frame.left - 6}" y="{float(y) + 4:.1f}">{short(value)}</text>'


def _band(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for known, run in groupby(enumerate(points), lambda pair: pair[1].high is not None):
        if known:
            pairs = list(run)
            upper = [f"{frame.x(place)},{frame.y(point.high or 0)}" for place, point in pairs]
            lower = [f"{frame.x(place)},{frame.y(point.low or 0)}" for place, point in reversed(pairs)]
            yield f'<polygon class="band" points="{" ".join(upper + lower)}"/>'


def _lines(frame: _Frame, kind: str, values: Iterable[float | None]) -> Iterator[str]:
    for known, run in groupby(enumerate(values), lambda pair: pair[1] is not None):
        if known:
            places = " ".join(f"{frame.x(place)},{frame.y(value or 0)}" for place, value in run)
            yield f'<polyline class="{kind}" points="{places}"/>'


def _outs(frame: _Frame, points: Sequence[Point], *, radius: float) -> Iterator[str]:
    for place, point in enumerate(points):
        if point.is_out and point.value is not None:
            yield f'<circle class="out" cx="{frame.x(place)}" cy="{frame.y(point.value)}" r="{radius}"/>'


def short(value: float) -> str:
    """Return a number in the short form for a chart."""
    for least, sign in ((1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:.1f}".removesuffix(".0") + sign
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"  # noqa: PLR2004
