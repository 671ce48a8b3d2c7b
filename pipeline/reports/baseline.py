"""The report of ``baseline``: the series that were out most often, all the others small, and the back-test."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from bus.domain.health.findings import Metric
from pipeline.norms.judging import NEEDED, WINDOWS
from pipeline.norms.metrics import State
from pipeline.norms.weeks import HOURS
from pipeline.reports.charts import Point, chart, short
from pipeline.reports.style import STYLE
from pipeline.reports.totals import Total, series_name
from pipeline.transforms.norming import LEAST_ATTEMPTS, LEAST_TIMED

WORST: Final = 3
_EPOCH_WEEKDAY: Final = 3
_TITLES: Final = {
    Metric.VOLUME: "Volume, an hour",
    Metric.LATENCY: "Latency, p95 in ms",
    Metric.FAILURE: "Share of attempts that failed",
}
_COLUMNS: Final = ("fault", "found", "where the volume is thin", "false alarms per series and month", "series judged")


class Panel(NamedTuple):
    """One series and metric over the last week."""

    name: str
    metric: Metric
    state: str
    points: Sequence[Point]

    @property
    def out(self) -> int:
        """Number of hours that are out."""
        return sum(point.is_out for point in self.points)


def page_of(
    hours: Iterable[Mapping[str, Any]],
    norms: Iterable[Mapping[str, Any]],
    scored: Sequence[Total],
    before: dt.datetime,
) -> str:
    """Return the page, from rows of ``transforms.hourly`` and of ``schemas.THRESHOLDS``, and totals of a back-test."""
    panels = sorted(panels_of(hours, norms, int(before.timestamp()) // 3600), key=lambda panel: -panel.out)
    worst = [panel for panel in panels if panel.state == State.READY][:WORST]
    sections = [
        _lead(panels, before),
        *([_scores(scored)] if scored else []),
        _group("Furthest from their norms", [_figure(panel, 960, 260) for panel in worst], "wide"),
        *[_small(metric, panels) for metric in Metric],
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Norms before {_when(before)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def panels_of(hours: Iterable[Mapping[str, Any]], norms: Iterable[Mapping[str, Any]], end: int) -> list[Panel]:
    """Return the last week before ``end`` (hours since the epoch) of every series and metric that has norms."""
    known = {(row["destination"], row["subscription"], row["hour"]): row for row in hours if row["hour"] >= end - HOURS}
    limits: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    for row in norms:
        limits.setdefault((row["destination"], row["subscription"], row["metric"]), {})[row["hour_of_week"]] = row
    return [_panel(key, by_hour, known, end) for key, by_hour in sorted(limits.items())]


def _panel(
    key: tuple[str, str, str],
    by_hour: Mapping[int, Mapping[str, Any]],
    known: Mapping[tuple[str, str, int], Mapping[str, Any]],
    end: int,
) -> Panel:
    metric = Metric(key[2])
    points = []
    for hour in range(end - HOURS, end):
        limit = by_hour[(hour + _EPOCH_WEEKDAY * 24) % HOURS]
        value = _value(metric, known.get((key[0], key[1], hour)))
        points.append(Point(hour, value, *[_number(limit[name]) for name in ("norm", "low", "high")]))
    states = {row["state"] for row in by_hour.values()}
    state = next(state for state in (State.LEARNING, State.READY, State.THIN) if state in states)
    return Panel(series_name({"destination": key[0], "subscription": key[1]}), metric, state, points)


def _value(metric: Metric, row: Mapping[str, Any] | None) -> float | None:
    if row is None:
        return None
    if metric is Metric.VOLUME:
        return float(row["volume"])
    if metric is Metric.LATENCY:
        return _number(row["p95_ms"]) if row["timed"] >= LEAST_TIMED else None
    return row["failed"] / row["attempts"] if row["attempts"] >= LEAST_ATTEMPTS else None


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)  # noqa: PLR0124 - NaN is unlike itself


def _lead(panels: Sequence[Panel], before: dt.datetime) -> str:
    counts = {state: sum(panel.state == state for panel in panels) for state in State}
    out = sum(panel.out > 0 for panel in panels)
    facts = (
        (counts[State.READY], "with norms"),
        (counts[State.THIN], "too thin to tell half from chance"),
        (counts[State.LEARNING], "learning (under three weeks)"),
        (out, "out of their norms in the last week"),
    )
    items = "".join(f"<li><b>{count}</b> {escape(what)}</li>" for count, what in facts)
    return (
        f"<h1>Norms before {_when(before)}</h1><p>Series by metric; the week shown is the last one, in UTC. The band "
        f"is what is usual in that hour of the week; {NEEDED} of {WINDOWS} hours outside it are an alarm.</p>"
        f'<ul class="facts">{items}</ul>'
    )


def _scores(scored: Sequence[Total]) -> str:
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(_score(total) for total in scored)
    return (
        "<h2>Back-test</h2><p>Each past week judged by the weeks before it, with faults of three hours put into it.</p>"
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _score(total: Total) -> str:
    found = f"{total.share:.1%} of {total.put:,}" if total.put else "–"
    thin = f"{total.thin_found / total.thin_put:.1%} of {total.thin_put:,}" if total.thin_put else "–"
    cells = (escape(total.fault.value), found, thin, f"{total.alarms_a_month:.2f}", str(total.series))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _small(metric: Metric, panels: Sequence[Panel]) -> str:
    own = [panel for panel in panels if panel.metric is metric and panel.state != State.LEARNING]
    left = [panel.name for panel in panels if panel.metric is metric and panel.state == State.LEARNING]
    learning = f"<p>Learning: {escape(', '.join(left))}.</p>" if left else ""
    return _group(_TITLES[metric], [_figure(panel, 300, 90) for panel in own], "small") + learning


def _figure(panel: Panel, width: int, height: int) -> str:
    weekday = (panel.points[0].hour // 24 + _EPOCH_WEEKDAY) % 7
    label = escape(f"{panel.name}, {_TITLES[panel.metric]}, {panel.out} hours out", quote=True)
    picture = chart(panel.points, width=width, height=height, label=label, first_weekday=weekday)
    most = max((point.value for point in panel.points if point.value is not None), default=0.0)
    thin = " · thin" if panel.state == State.THIN else ""
    out = f' · <b class="bad">{panel.out} out</b>' if panel.out else ""
    metric = f" · {_TITLES[panel.metric]}" if width > height * 3.5 else ""
    return (
        f"<figure><figcaption><b>{escape(panel.name)}</b>{metric} · max {short(most)}{thin}{out}</figcaption>"
        f"{picture}</figure>"
    )


def _group(title: str, figures: Sequence[str], kind: str) -> str:
    body = f'<div class="{kind}">{"".join(figures)}</div>' if figures else "<p>None has norms yet.</p>"
    return f"<h2>{escape(title)}</h2>{body}"


def _when(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
