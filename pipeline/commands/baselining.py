"""``bus pipeline baseline``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bus.cli.output import print_json
from bus.errors import ConfigurationError
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


class BaselineOptions(NamedTuple):
    """What the command was given."""

    lake: str
    weeks: int
    before: dt.datetime | None
    backtest: bool
    seed: int
    report: Path | None


def run(options: BaselineOptions, session: SessionOptions, *, as_json: bool) -> None:
    """Publish norms, or judge the past by them; the lake is the same after a back-test."""
    lake = lake_with(options.lake, ROLLUPS)
    check_report(options.report)
    before = _whole_hour(options.before) if options.before else baseline.last_hour(lake)
    if before is None:
        raise ConfigurationError(
            f"the lake {options.lake} has no whole hour of rollups yet",
            hint="wait for the hour; norms need three weeks",
        )
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting Spark")
        with running("baseline", session) as spark:
            progress.update(task, description="adding up the hours")
            found = _found(spark, lake, options, baseline.Span(before, options.weeks))
    print_json(found.as_json()) if as_json else found.show(Console())
    if options.report:
        options.report.write_text(page_of(found.hours, found.norms, found.totals, before), "utf-8")


class Found(NamedTuple):
    """What a run has to tell."""

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

    def show(self, console: Console) -> None:
        """Print tables."""
        console.print(_table_of(self.series()))
        if self.totals:
            console.print(_scores_of(self.totals))
            quiet = sorted({name for total in self.totals if total.fault is Fault.DROP for name in total.thin})
            console.print(f"too little volume to tell half from chance: {', '.join(quiet) or 'none'}", markup=False)


def _whole_hour(given: dt.datetime) -> dt.datetime:
    aware = given.astimezone(dt.UTC) if given.tzinfo else given.replace(tzinfo=dt.UTC)
    return aware.replace(minute=0, second=0, microsecond=0)


def _state(latest: str, clear: int) -> str:
    return State.LEARNING if latest == State.LEARNING else State.READY if clear else State.THIN


def _found(spark: SparkSession, lake: Lake, options: BaselineOptions, span: baseline.Span) -> Found:
    hours = baseline.history(spark, lake, span).persist()
    scored: list[Total] = []
    if options.backtest:
        scored = totals(_rows(baseline.backtest(hours, seed=options.seed, weeks=options.weeks)))
        norms = baseline.norms_at(hours, span)
    else:
        baseline.publish(lake, hours, span)
        norms = baseline.thresholds(spark, lake)
    return Found(span.before, _rows(hours) if options.report else [], _rows(norms), scored)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _table_of(series: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Table:
    table = Table(title="Norms")
    for name in ("destination", "subscription", "metric", "state", "weeks", "method", "clear hours of 168"):
        table.add_column(name)
    for key, entry in sorted(series.items()):
        state, method = str(entry["state"]), str(entry["method"])
        table.add_row(*key, state, f"{entry['weeks']:.1f}", method, str(entry["clear_hours"]))
    return table


def _scores_of(scored: Sequence[Total]) -> Table:
    table = Table(title="Back-test: found within three hours, where the volume suffices and where not")
    for name in ("fault", "found", "where thin", "false alarms per series and month", "series"):
        table.add_column(name)
    for total in scored:
        share = f"{total.share:.1%} of {total.put}" if total.put else "none put"
        thin = f"{total.thin_found} of {total.thin_put}"
        table.add_row(total.fault.value, share, thin, f"{total.alarms_a_month:.2f}", str(total.series))
    return table
