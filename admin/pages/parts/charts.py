"""Charts over time; whoever cannot see one has its figures as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from nicegui import ui

from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer

_HEIGHT: Final = "190px"
# On light and dark surfaces alike.
_COLOURS: Final = {"in": "#4d82ff", "good": "#1fa463", "bad": "#e0474f", "warn": "#d98e04", "wait": "#8b96ab"}


class Line(NamedTuple):
    """What is drawn of each point: its name, how to find it, and its colour; ``is_area`` fills below it."""

    name: str
    field: str
    colour: str
    is_area: bool = False


class Chart:
    """Lines over one span of time, which can be drawn anew in place."""

    def __init__(self, viewer: Viewer, title: str, lines: Sequence[Line], *, unit: str = "") -> None:
        self._viewer = viewer
        self._lines = lines
        self._unit = unit
        with tag("figure", "pier-chart"):
            tag("figcaption", "pier-quiet", title)
            self._chart = ui.echart(self._options(), renderer="svg").style(f"height: {_HEIGHT}")
            self._chart.props["role"] = "img"
            self._chart.props["aria-label"] = title

    def draw(self, span: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> None:
        """Draw points of the API (``at``, and the fields of the lines); periods with nothing in them count as 0."""
        shown = {str(point["at"]): point for point in points}
        times = _times(self._viewer, span)
        options = self._chart.options
        options["xAxis"]["data"] = [label for _, label in times]
        for line, series in zip(self._lines, options["series"], strict=True):
            series["data"] = [_value(shown.get(at, {}), line.field) for at, _ in times]
        self._chart.update()

    def _options(self) -> dict[str, Any]:
        quiet = "#8b96ab"
        return {
            "animation": False,
            "grid": {"left": 8, "right": 24, "top": 28, "bottom": 4, "containLabel": True},
            "legend": {"top": 0, "left": 0, "icon": "roundRect", "itemHeight": 8, "textStyle": {"color": quiet}},
            "tooltip": {"trigger": "axis", "confine": True},
            "xAxis": {"type": "category", "boundaryGap": False, "data": [], "axisLabel": {"color": quiet}},
            "yAxis": {
                "type": "value",
                "min": 0,
                "minInterval": 1 if not self._unit else None,
                "axisLabel": {"color": quiet, "formatter": f"{{value}}{self._unit}"},
                "splitLine": {"lineStyle": {"color": "rgba(139,150,171,0.25)"}},
            },
            "series": [_series(line) for line in self._lines],
        }


def _series(line: Line) -> dict[str, Any]:
    colour = _COLOURS[line.colour]
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


def _times(viewer: Viewer, span: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the beginnings of all periods of a span, as the API writes them and as the axis does."""
    return viewer.periods(span["from"], span["to"], int(span["step_seconds"]))


def _value(point: Mapping[str, Any], field: str) -> float | None:
    """Return a field of a point; ``a.b`` is b in a. A rate or a time is unknown where nothing was."""
    found: Any = point
    for part in field.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None and not field.endswith(("_ms", "_rate")):
        return 0
    return None if found is None else float(found)
