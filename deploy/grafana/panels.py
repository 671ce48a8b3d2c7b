"""Panels of a dashboard, in Grafana's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

SCHEMA_VERSION: Final = 39
COLUMNS: Final = 24
_SOURCE: Final[Mapping[str, str]] = {"type": "prometheus", "uid": "${datasource}"}
_COLOURS: Final = ("green", "orange", "red")

Kind = Literal["timeseries", "stat"]


class Query(NamedTuple):
    """An expression of PromQL, and what each of its series is called: ``{{label}}`` stands for a label's value."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """One picture.

    Attributes
    ----------
    unit
        By Grafana's names: ``reqps``, ``s``, ``bytes``, ``percentunit``, ``short``.
    about
        What it means and when to worry; shown beside the title.
    width
        Of 24 columns.
    limits
        From where a value is orange, and from where red.
    """

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    about: str = ""
    kind: Kind = "timeseries"
    width: int = 8
    limits: tuple[float, float] | None = None


class Row(NamedTuple):
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Panel]


class Variable(NamedTuple):
    """What a viewer chooses at the top: one of the values that a query gives, or all of them."""

    name: str
    label: str
    query: str


class Dashboard(NamedTuple):
    """A page; ``uid`` is its address for ever."""

    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()

    @property
    def queries(self) -> Iterator[Query]:
        """All expressions of its panels."""
        return (query for row in self.rows for panel in row.panels for query in panel.queries)


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["pier"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [_link()],
        "templating": {"list": [_data_source(), *map(_variable, dashboard.variables)]},
        "panels": list(_placed(dashboard.rows)),
    }


def _link() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "Pier",
        "icon": "external link",
        "tooltip": "",
        "tags": ["pier"],
        "asDropdown": True,
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
    }


def _data_source() -> dict[str, Any]:
    return {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "hide": 0}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": dict(_SOURCE),
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "allValue": ".+",
        "multi": False,
        "hide": 0,
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in rows:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "panels": []} | _at(0, top, 24, 1)
        left, top, height = 0, top + 1, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                left, top, height = 0, top + height, 0
            number, height = number + 1, 4 if panel.kind == "stat" else 8
            yield {"id": number, **_panel(panel)} | _at(left, top, panel.width, height)
            left += panel.width
        top += height


def _at(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    return {"gridPos": {"x": left, "y": top, "w": width, "h": height}}


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": dict(_SOURCE),
        "targets": [_target(number, query) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _STAT if panel.kind == "stat" else _TIMESERIES,
    }


def _target(number: int, query: Query) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + number),
        "datasource": dict(_SOURCE),
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "range": True,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": _COLOURS[0], "value": None}]
    for colour, value in zip(_COLOURS[1:], panel.limits or (), strict=False):
        steps.append({"color": colour, "value": value})
    mode = "thresholds" if panel.kind == "stat" else "palette-classic"
    return {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": mode},
        "thresholds": {"mode": "absolute", "steps": steps},
    }


_STAT: Final[Mapping[str, Any]] = {
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "colorMode": "value",
    "graphMode": "area",
    "justifyMode": "auto",
    "orientation": "auto",
    "textMode": "auto",
    "wideLayout": True,
}
_TIMESERIES: Final[Mapping[str, Any]] = {
    "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
