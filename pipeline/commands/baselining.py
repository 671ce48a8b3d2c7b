"""``bus pipeline baseline``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bus.cli.options import Output
from bus.cli.output import plain, print_json
from bus.cli.tables import Table
from bus.clock import SystemClock
from bus.errors import ConfigurationError
from pipeline.commands.following import following
from pipeline.commands.looking import check_report, lake_with
from pipeline.jobs import baseline
from pipeline.lake.lake import Lake
from pipeline.norms.backtest import Fault
from pipeline.norms.metrics import State
from pipeline.options import SessionOptions
from pipeline.reports.baseline import page_of
from pipeline.reports.totals import Total, totals
from pipeline.schemas import ROLLUPS
from pipeline.session import running

_NORMS: Final = ("destination", "subscription", "metric", "state", "weeks", "method", "clear_hours")
_SCORES: Final = (
    "fault",
    "found_within_3h",
    "found_where_thin",
    "false_alarms_a_month",
    "series",
)


class BaselineOptions(NamedTuple):
    """The arguments of the command."""

    lake: str
    weeks: int
    before: dt.datetime | None
    backtest: bool
    seed: int
    report: Path | None


def run(options: BaselineOptions, session: SessionOptions, *, output: Output) -> None:
    """Publish norms, or judge the past by them; the lake is the same after a back-test."""
    tables = output.tables(_NORMS, _SCORES)
    lake = lake_with(options.lake, ROLLUPS)
    check_report(options.report)
    span = _span(lake, options)
    with running("baseline", session, options.lake) as spark, following(spark, "learning"):
        found = _found(spark, lake, options, span)
    if output.as_json:
        print_json(found.as_json())
    else:
        _print(found, *tables)
    if options.report:
        options.report.write_text(page_of(found.hours, found.norms, found.totals, span.before), "utf-8")


class BaselineReport(NamedTuple):
    """The result of a run, for its report."""

    before: dt.datetime
    hours: Sequence[Mapping[str, Any]]
    norms: Sequence[Mapping[str, Any]]
    totals: Sequence[Total]

    def series(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Return for each series and metric how many weeks are known and how many hours of the week are clear."""
        series: dict[tuple[str, str, str], dict[str, Any]] = {}
        for row in self.norms:
            key = (row["destination"], row["subscription"], row["metric"])
            entry = series.setdefault(key, {"weeks": row["weeks"], "method": row["method"], "clear_hours": 0})
            entry["clear_hours"] += row["state"] == State.READY
            entry["state"] = _state(row["state"], entry["clear_hours"])
        return series

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``--json``."""
        names = ("destination", "subscription", "metric")
        return {
            "before": self.before.isoformat(),
            "series": [{**dict(zip(names, key, strict=True)), **entry} for key, entry in sorted(self.series().items())],
            "backtest": [{**total._asdict(), "fault": total.fault.name.lower()} for total in self.totals],
        }


def _span(lake: Lake, options: BaselineOptions) -> baseline.Span:
    """Return the weeks to look at; raises ``ConfigurationError`` when nothing in them was rolled up."""
    before = _whole_hour(options.before) if options.before else baseline.last_hour(lake)
    span = baseline.Span(before, options.weeks) if before is not None else None
    if span is None or not baseline.may_have_hours(lake, span):
        when = f"in the {options.weeks} weeks before {before:%Y-%m-%dT%H:%MZ}" if before is not None else "yet"
        raise ConfigurationError(
            f"the lake {options.lake} has no whole hour of rollups {when}",
            hint="wait for the hour, or end the history elsewhere (--before); norms need three weeks",
        )
    return span


def _whole_hour(given: dt.datetime) -> dt.datetime:
    return given.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)


def _state(latest: str, clear: int) -> str:
    return State.LEARNING if latest == State.LEARNING else State.READY if clear else State.THIN


def _found(spark: SparkSession, lake: Lake, options: BaselineOptions, span: baseline.Span) -> BaselineReport:
    hours = baseline.history(spark, lake, span).persist()
    scored: list[Total] = []
    if options.backtest:
        scored = totals(_rows(baseline.backtest(hours, seed=options.seed, weeks=options.weeks)))
        norms = baseline.norms_at(hours, span)
    else:
        baseline.publish(lake, hours, span, SystemClock().now())
        norms = baseline.thresholds(spark, lake)
    return BaselineReport(span.before, _rows(hours) if options.report else [], _rows(norms), scored)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _print(found: BaselineReport, norms: Table, scores: Table) -> None:
    known = [
        (*key, entry["state"], f"{entry['weeks']:.1f}", entry["method"], entry["clear_hours"])
        for key, entry in sorted(found.series().items())
    ]
    norms.show([dict(zip(_NORMS, values, strict=True)) for values in known])
    if found.totals:
        scores.show([dict(zip(_SCORES, _score(total), strict=True)) for total in found.totals])
        quiet = sorted({name for total in found.totals if total.fault is Fault.DROP for name in total.thin})
        sys.stdout.write(f"too little volume to tell half from chance: {plain(quiet) or 'none'}\n")


def _score(total: Total) -> list[object]:
    share = f"{total.share:.1%} of {total.put}" if total.put else "none put"
    thin = f"{total.thin_found} of {total.thin_put}"
    return [total.fault.value, share, thin, f"{total.alarms_a_month:.2f}", total.series]
