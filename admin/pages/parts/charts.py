"""Charts over time, each with its figures as a table for users who cannot see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from nicegui import ui

from admin.models.responses.stats import PointView, SpanView
from admin.pages.parts.tags import tag
from admin.pages.parts.ticks import round_ticks
from admin.pages.viewer import Viewer

Options = dict[str, Any]
"""What ECharts takes."""
_HEIGHT: Final = "190px"
# Of times in milliseconds: from which greatest one on, by what it is divided, and the unit then.
_TIMES: Final = ((2 * 3_600_000, 3_600_000, "h"), (2 * 60_000, 60_000, "min"), (2_000, 1_000, "s"), (0, 1, "ms"))
# Visible in the light and in the dark theme.
COLOURS: Final = {"in": "#4d82ff", "good": "#1fa463", "bad": "#e0474f", "warn": "#d98e04", "wait": "#8b96ab"}


class Line(NamedTuple):
    """One line of a chart: its name, its value at a point, and its colour; ``is_area`` fills below it.

    ``nothing`` is the value of a period without figures: 0 for a count, None for a rate or a time.
    """

    name: str
    value: Callable[[PointView], float | None]
    colour: str
    is_area: bool = False
    nothing: float | None = 0


class Chart:
    """Lines over one span of time, which can be redrawn in place; ``is_of_times`` of values in milliseconds."""

    def __init__(self, viewer: Viewer, title: str, lines: Sequence[Line], *, is_of_times: bool = False) -> None:
        self._viewer = viewer
        self._lines = lines
        self._is_of_times = is_of_times
        with tag("figure", "pier-chart"):
            tag("figcaption", "pier-quiet", title)
            self._chart = ui.echart(self._options(), renderer="svg").style(f"height: {_HEIGHT}")
            self._chart.props["role"] = "img"
            self._chart.props["aria-label"] = title

    def draw(self, span: SpanView, points: Sequence[PointView]) -> None:
        """Draw points of the API; periods with nothing in them are drawn as well."""
        shown = {point.at: point for point in points}
        times = _times(self._viewer, span)
        options = self._chart.options
        options["xAxis"]["data"] = [label for _, label in times]
        options["xAxis"]["axisLabel"]["customValues"] = ticks = round_ticks(self._viewer, [at for at, _ in times])
        options["xAxis"]["axisTick"] = {"customValues": ticks}
        drawn = [[line.value(shown[at]) if at in shown else line.nothing for at, _ in times] for line in self._lines]
        if self._is_of_times:
            drawn = self._in_a_unit_that_fits(drawn)
        for values, series in zip(drawn, options["series"], strict=True):
            series["data"] = values
        self._chart.update()

    def _in_a_unit_that_fits(self, drawn: list[list[float | None]]) -> list[list[float | None]]:
        greatest = max((value for values in drawn for value in values if value is not None), default=0)
        divisor, unit = next((divisor, unit) for least, divisor, unit in _TIMES if greatest >= least)
        self._chart.options["yAxis"]["axisLabel"]["formatter"] = f"{{value}} {unit}"
        return [[value and round(value / divisor, 3) for value in values] for values in drawn]

    def _options(self) -> Options:
        options = framed([], [_series(line) for line in self._lines])
        options["xAxis"]["boundaryGap"] = False
        options["yAxis"]["axisLabel"]["formatter"] = "{value}"
        if self._is_of_times:
            options["yAxis"]["minInterval"] = None
        return options


def framed(labels: Sequence[str], series: Sequence[Options]) -> Options:
    """Return counts over time with a legend and axes: the labels of the times, and what is drawn of each."""
    quiet = COLOURS["wait"]
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 28, "bottom": 4, "containLabel": True},
        "legend": {"top": 0, "left": 0, "icon": "roundRect", "itemHeight": 8, "textStyle": {"color": quiet}},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {"type": "category", "data": list(labels), "axisLabel": {"color": quiet, "hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "minInterval": 1,
            "axisLabel": {"color": quiet},
            "splitLine": {"lineStyle": {"color": "rgba(139,150,171,0.25)"}},
        },
        "series": list(series),
    }


def _series(line: Line) -> Options:
    colour = COLOURS[line.colour]
    return {
        "name": line.name,
        "type": "line",
        "symbol": "circle",
        "symbolSize": 3,  # a single period between two empty ones is a point
        "color": colour,
        "lineStyle": {"width": 2},
        "areaStyle": {"opacity": 0.14} if line.is_area else None,
        "data": [],
    }


def _times(viewer: Viewer, span: SpanView) -> list[tuple[str, str]]:
    """Return the beginnings of all periods of a span, in the format of the API and of the axis."""
    return viewer.periods(span.since, span.until, span.step_seconds)
