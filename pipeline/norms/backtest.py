"""Back-test of norms: each past week, as it was and with faults, is judged by the norms of the weeks before it."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from bus.domain.health.findings import Metric
from pipeline.norms.judging import WINDOWS, alarmed, begun, out_of
from pipeline.norms.metrics import DROP, SLOWER, Norms, norms_of
from pipeline.norms.weeks import HOURS, Floats, known_weeks

FAULTS_A_WEEK: Final = 20
_FAILING: Final = 0.5
_THREE_WEEKS: Final = 3


class Fault(enum.StrEnum):
    """A fault that a back-test puts into past weeks."""

    DROP = "half of the volume is missing"
    OUTAGE = "nothing comes"
    SLOW = "latency is twice the usual"
    FAILING = "half of the attempts fail"


METRIC_OF: Final = {
    Fault.DROP: Metric.VOLUME,
    Fault.OUTAGE: Metric.VOLUME,
    Fault.SLOW: Metric.LATENCY,
    Fault.FAILING: Metric.FAILURE,
}


class Score(NamedTuple):
    """The score of one fault in one metric of one series.

    ``put`` and ``found`` are of faults at hours with enough volume to judge, ``thin_put`` and ``thin_found`` of others.
    ``alarms`` are false ones, of the weeks without faults; the same for all faults of a metric. ``clear`` is the share
    of hours that have enough volume.
    """

    metric: Metric
    fault: Fault
    weeks: int
    put: int
    found: int
    thin_put: int
    thin_found: int
    alarms: int
    clear: float


class History(NamedTuple):
    """A series, laid out as weeks: by metric its figures, and the counts behind each figure."""

    figures: dict[Metric, Floats]
    counts: dict[Metric, Floats]

    def before(self, metric: Metric, week: int, most: int) -> Norms:
        """Return the norms that were known at the start of a week, of at most so many weeks before it."""
        rows = slice(max(0, week - most), week)
        known = known_weeks(self.figures[Metric.VOLUME][rows])
        return norms_of(metric, self.figures[metric][rows], self.counts[metric][rows], known)


def scores(history: History, *, seed: int, most: int) -> list[Score]:
    """Return the score of each fault, from the fourth week on; with fewer weeks all counts are 0."""
    weeks = history.figures[Metric.VOLUME].shape[0]
    tested = range(_THREE_WEEKS, weeks)
    known = {metric: [history.before(metric, week, most) for week in tested] for metric in Metric}
    return [
        _score(fault, history, tested, known[METRIC_OF[fault]], np.random.default_rng((seed, place)))
        for place, fault in enumerate(Fault)
    ]


def _score(fault: Fault, history: History, tested: range, known: list[Norms], chance: np.random.Generator) -> Score:
    metric = METRIC_OF[fault]
    tally: Counter[tuple[bool, bool]] = Counter()
    outs, clear = [], []
    judged = 0
    for week, norms in zip(tested, known, strict=True):
        if norms.is_learning:
            continue
        judged += 1
        values = history.figures[metric][week]
        out = out_of(norms, values)
        outs.append(out)
        clear.append(norms.clear)
        for start in chance.integers(WINDOWS, HOURS - WINDOWS, FAULTS_A_WEEK):
            hours = slice(start, start + WINDOWS)
            if not np.isfinite(values[hours]).all():
                continue
            faulty = values.copy()
            faulty[hours] = _with(fault, values[hours], chance)
            # Only the hours of the fault are judged, so that hours that were out before it do not count.
            found = bool(alarmed(out_of(norms, faulty)[hours]).any())
            tally[bool(norms.clear[hours].all()), found] += 1
    alarms = begun(alarmed(np.concatenate(outs))) if outs else 0
    share = float(np.mean(clear)) if clear else 0.0
    return Score(
        metric=metric,
        fault=fault,
        weeks=judged,
        put=tally[True, True] + tally[True, False],
        found=tally[True, True],
        thin_put=tally[False, True] + tally[False, False],
        thin_found=tally[False, True],
        alarms=alarms,
        clear=share,
    )


def _with(fault: Fault, values: Floats, chance: np.random.Generator) -> Floats:
    if fault is Fault.DROP:
        return chance.binomial(values.astype(np.int64), DROP).astype(np.float64)
    if fault is Fault.OUTAGE:
        return np.zeros_like(values)
    if fault is Fault.SLOW:
        return values * SLOWER
    return values + (1 - values) * _FAILING
