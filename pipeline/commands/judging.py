"""``bus pipeline judge``."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any, Final, NamedTuple

from bus.cli.options import Output
from bus.cli.output import print_json
from bus.cli.tables import Table
from bus.domain.health.findings import Deviation, Metric
from bus.domain.times import format_time
from bus.errors import BusError
from pipeline.commands.following import following
from pipeline.commands.looking import lake_with
from pipeline.commands.telling import ReportTarget, item_of, tell_norms
from pipeline.jobs.judge import Judgement, judge, looked_at
from pipeline.lake.lake import Lake
from pipeline.options import SessionOptions
from pipeline.schemas import ROLLUPS
from pipeline.session import running

_COLUMNS: Final = ("destination", "subscription", "metric", "value", "norm", "low", "high", "hour")
_NOTHING_JUDGED: Final = 3  # as of reconcile; 2 is wrong usage


class JudgeOptions(NamedTuple):
    """The arguments of the command."""

    lake: str
    telling: ReportTarget | None


def run(options: JudgeOptions, session: SessionOptions, *, output: Output) -> int:
    """Judge, print, and report to the bus when asked; return the exit code.

    It is 0 when nothing is outside of its norms, 1 when something is, 3 when nothing could be judged.

    Raises
    ------
    JobFailed
        The report did not reach the bus; the result was printed.
    """
    table = output.table(*_COLUMNS)
    lake = lake_with(options.lake, ROLLUPS)
    found = _found(lake, session, dt.datetime.now(dt.UTC))
    if output.as_json:
        _print_json(found, options.telling)
    else:
        _print(found, options.telling, table)
    if found.why:
        return _NOTHING_JUDGED
    return 1 if found.deviations else 0


def _found(lake: Lake, session: SessionOptions, now: dt.datetime) -> Judgement:
    seen = looked_at(lake, now)
    if seen.until is None or seen.why:
        return seen
    with running("judge", session, lake.storage.root) as spark, following(spark, "judging"):
        return judge(spark, lake, seen.until)


def _print(found: Judgement, telling: ReportTarget | None, table: Table) -> None:
    if found.deviations:
        table.show([dict(zip(_COLUMNS, _row(one), strict=True)) for one in found.deviations])
    sys.stdout.write(_sentence(found) + "\n")
    sys.stdout.flush()
    if telling is not None:
        sys.stdout.write("the bus was told\n" if _tell(found, telling) else "the bus was told nothing\n")


def _print_json(found: Judgement, telling: ReportTarget | None) -> None:
    """Print one document, in which a failed report to the bus has its error."""
    document: dict[str, Any] = {
        "summary": _sentence(found),
        "until": found.until.isoformat() if found.until is not None else None,
        "metrics": found.metrics,
        "out": [item_of(one) for one in found.deviations],
    }
    try:
        told = _tell(found, telling)
    except BusError as error:
        print_json({**document, "told": {"error": str(error), "hint": error.hint}})
        raise
    print_json({**document, "told": told})


def _tell(found: Judgement, telling: ReportTarget | None) -> bool:
    """Report to the bus, and return whether it was done; hours that could not be judged are never reported."""
    if telling is None or found.until is None or found.why:
        return False
    tell_norms(telling, found.until, found.deviations)
    return True


def _sentence(found: Judgement) -> str:
    if found.why:
        return f"nothing can be judged: {found.why}"
    out = len(found.deviations)
    what = f"{out} of {found.metrics} metrics are" if out else f"none of {found.metrics} metrics is"
    return f"{what} outside of the norms in the three hours before {found.until:%Y-%m-%dT%H:%MZ}"


def _row(one: Deviation) -> list[object]:
    figures = [_figure(one.metric, figure) for figure in (one.value, one.norm, one.low, one.high)]
    return [one.destination, one.subscription, one.metric, *figures, format_time(one.since)]


def _figure(metric: Metric, figure: float | None) -> str | None:
    if figure is None:
        return None
    if metric is Metric.FAILURE:
        return f"{figure:.1%}"
    return f"{figure:.0f} ms" if metric is Metric.LATENCY else f"{figure:.0f}"
