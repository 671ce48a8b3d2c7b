"""Metrics outside of their norms: two of the last three hours are out, silence counts and gaps do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bus.domain.health.findings import Deviation, Metric
from bus.domain.times import HOUR
from pipeline.norms.weeks import place_of
from pipeline.transforms.deviating import JudgedMetrics, judged

HOURS = [490_991, 490_992, 490_993]  # over the end of a week


def norms(metric: str = "volume", subscription: str = "", **limits: float | None) -> Iterator[dict[str, Any]]:
    for place in place_of(np.array(HOURS)).tolist():
        given = {"norm": 100.0, "low": None, "high": None, **limits}
        yield {"destination": "orders", "subscription": subscription, "metric": metric, "hour_of_week": place, **given}


def row(hour: int, subscription: str = "", **fields: Any) -> dict[str, Any]:
    counts = {"volume": 0, "attempts": 0, "failed": 0, "timed": 0, "p95_ms": None}
    return {"destination": "orders", "subscription": subscription, "hour": HOURS[hour], **counts, **fields}


def volumes(*volumes: int | None) -> list[dict[str, Any]]:
    return [row(hour, volume=volume) for hour, volume in enumerate(volumes) if volume is not None]


def outs(rows: list[dict[str, Any]], *known: dict[str, Any]) -> list[Deviation]:
    return judged(rows, known or norms(low=50.0, high=200.0), HOURS).deviations


@pytest.mark.parametrize(
    ("found", "hour"),
    [
        ((100, 100, 100), None),
        ((100, 100, 10), None),
        ((100, 10, 10), 2),
        ((10, 10, 100), 1),
        ((10, 100, 300), 2),
        ((50, 50, 200), None),
        ((None, 10, 10), 2),
        ((10, None, 10), 2),
        ((None, None, 10), None),
    ],
)
def test_two_of_three_hours_are_out(found: tuple[int | None, ...], hour: int | None) -> None:
    told = outs(volumes(*found))
    assert [one.since for one in told] == ([] if hour is None else [HOURS[hour] * HOUR])
    if hour is not None:
        (one,) = told
        assert (one.value, one.norm, one.low, one.high) == (found[hour], 100.0, 50.0, 200.0)


def test_a_series_with_norms_and_no_row_was_silent_where_others_were_not() -> None:
    others = [{**one, "destination": "mails"} for one in volumes(None, 7, 7)]
    (silent,) = outs(others)
    assert (silent.destination, silent.value, silent.since) == ("orders", 0.0, HOURS[2] * HOUR)
    assert outs([{**one, "destination": "mails"} for one in volumes(None, None, 7)]) == []
    assert outs([]) == []


def test_a_latency_of_few_deliveries_is_not_judged() -> None:
    slow = [row(hour, "shop", volume=100, timed=timed, p95_ms=900.0) for hour, timed in enumerate((99, 100, 100))]
    (one,) = outs(slow, *norms("latency", "shop", high=500.0))
    assert (one.metric, one.value, one.low, one.high) == (Metric.LATENCY, 900.0, None, 500.0)
    assert outs(slow[:2], *norms("latency", "shop", high=500.0)) == []


def test_a_share_of_few_attempts_is_not_judged() -> None:
    failing = [row(hour, "shop", attempts=attempts, failed=10) for hour, attempts in enumerate((20, 19, 20))]
    (one,) = outs(failing, *norms("failure", "shop", high=0.4))
    assert (one.metric, one.value) == (Metric.FAILURE, 0.5)
    assert outs(failing[1:], *norms("failure", "shop", high=0.4)) == []


def test_what_is_being_learned_is_never_out_and_not_judged() -> None:
    assert judged(volumes(0, 0, 0), norms(), HOURS) == JudgedMetrics(0, [])
    assert judged(volumes(0, 0, 0), [], HOURS) == JudgedMetrics(0, [])
    assert judged([], norms(low=50.0), HOURS) == JudgedMetrics(0, [])


def test_what_was_judged_is_counted_and_what_is_out_is_in_the_order_of_names() -> None:
    rows = [row(hour, name, volume=1, attempts=1) for hour in range(3) for name in ("", "b", "a")]
    known = [one for name in ("b", "", "a") for one in norms(subscription=name, low=50.0)]
    found = judged(rows, [*known, *norms("failure", "a", high=0.5)], HOURS)
    assert found.metrics == 3
    assert [one.subscription for one in found.deviations] == ["", "a", "b"]
