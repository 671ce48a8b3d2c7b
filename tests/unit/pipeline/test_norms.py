import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.health.findings import Metric
from pipeline.norms.backtest import Fault, History, scores
from pipeline.norms.judging import alarmed, begun, out_of
from pipeline.norms.metrics import norms_of
from pipeline.norms.weeks import HOURS, STL_WEEKS, laid_out, level, medians, place_of

MONDAY = 490_992  # 2026-01-05 00:00 UTC, in hours since the epoch


def rhythm(peak: float) -> np.ndarray:
    hour = np.arange(HOURS)
    return peak * (0.3 + 0.7 * np.exp(-(((hour % 24 - 14) / 4) ** 2))) * np.where(hour >= 120, 0.6, 1)


def volumes(peak: float, weeks: int, seed: int) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return chance.poisson(rhythm(peak) * np.exp(0.06 * chance.standard_normal((weeks, HOURS)))).astype(float)


def volume_norms(values: np.ndarray):
    return norms_of(Metric.VOLUME, values, values, float(np.isfinite(values).sum()) / HOURS)


def test_a_week_begins_on_monday_in_utc():
    assert place_of(np.array([MONDAY - 1, MONDAY, MONDAY + 25])).tolist() == [167, 0, 25]


@given(st.integers(0, 10**7), st.integers(3, 9))
def test_a_constant_series_never_alarms(volume, weeks):
    values = np.full((weeks, HOURS), float(volume))
    assert not out_of(volume_norms(values), values[-1]).any()
    latency = norms_of(Metric.LATENCY, values + 1, values + 30, weeks)
    assert not out_of(latency, values[-1] + 1).any()
    failure = norms_of(Metric.FAILURE, values * 0, values + 20, weeks)
    assert not out_of(failure, values[-1] * 0).any()


@given(st.integers(300, 10**6), st.integers(3, 9), st.integers(0, 10**6))
def test_a_drop_of_a_clear_hour_always_is_out(peak, weeks, seed):
    norms = volume_norms(volumes(peak, weeks, seed))
    halved = norms.norm / 2
    assert out_of(norms, halved)[norms.clear].all()
    assert norms.clear.mean() > 0.25 or peak < 1000


@given(st.integers(0, 30), st.integers(0, 10**6))
def test_a_series_with_little_volume_says_so(peak, seed):
    assert not volume_norms(volumes(peak, 6, seed)).clear.any()


@pytest.mark.parametrize("hours", [1, HOURS, 3 * HOURS - 1])
def test_under_three_weeks_there_are_no_limits(hours):
    values = laid_out(np.arange(MONDAY, MONDAY + hours), np.full(hours, 1e4), int(MONDAY + 72) // HOURS, 3)
    norms = volume_norms(values)
    assert norms.is_learning
    assert not out_of(norms, np.zeros(HOURS)).any()


def test_hours_that_are_missing_are_not_zero():
    values = volumes(2000, 6, 1)
    holes = values.copy()
    holes[1, 10:90] = holes[4, 100:] = np.nan
    whole, holed = volume_norms(values), volume_norms(holes)
    assert np.isfinite(holed.norm).all()
    assert np.abs(holed.norm / whole.norm - 1).max() < 0.25
    assert not out_of(holed, np.full(HOURS, np.nan)).any()


def test_an_outage_in_the_past_does_not_move_the_norm():
    values = volumes(2000, 5, 2)
    hurt = values.copy()
    hurt[2, 40:60] = 0
    assert np.abs(volume_norms(hurt).norm / volume_norms(values).norm - 1).max() < 0.2


def test_a_trend_is_followed_once_weeks_suffice():
    growing = volumes(5000, 8, 3) * np.linspace(1, 2, 8 * HOURS).reshape(8, HOURS)
    norms = volume_norms(growing)
    assert norms.method == "stl"
    assert abs(norms.norm.sum() / growing[-1].sum() - 1) < 0.05
    assert volume_norms(growing[: STL_WEEKS - 1]).method == "median"
    flat, _ = level(np.full((8, HOURS), 7.0))
    assert np.allclose(medians(flat), 7.0)


def test_two_of_three_hours_that_are_out_are_one_alarm():
    out = np.array([0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0], dtype=bool)
    assert np.flatnonzero(alarmed(out)).tolist() == [5, 6, 7, 12]
    assert begun(alarmed(out)) == 2


def test_failures_of_few_attempts_are_chance():
    shares, counts = np.full((4, HOURS), 0.01), np.full((4, HOURS), 100.0)
    norms = norms_of(Metric.FAILURE, shares, counts, 4)
    assert not out_of(norms, np.full(HOURS, 0.04)).any()
    assert out_of(norms, np.full(HOURS, 0.2)).all()


def test_a_back_test_finds_what_was_put_and_is_the_same_again():
    values = volumes(3000, 8, 4)
    chance = np.random.default_rng(5)
    latency = 20 * np.exp(0.05 * chance.standard_normal(values.shape))
    failed = chance.binomial(values.astype(int), 0.01) / values
    history = History(
        {Metric.VOLUME: values, Metric.LATENCY: latency, Metric.FAILURE: failed}, dict.fromkeys(Metric, values)
    )
    found = scores(history, seed=1, most=8)
    assert found == scores(history, seed=1, most=8)
    for score in found:
        assert score.put >= 50
        assert score.found >= 0.95 * score.put, score
        assert score.alarms <= 1
    assert {score.fault for score in found} == set(Fault)


def test_a_back_test_would_notice_norms_that_are_too_wide():
    values = volumes(3000, 8, 4)
    values[::2] *= 4  # weeks differ so much that half of the volume is nothing special
    history = History(dict.fromkeys(Metric, values), dict.fromkeys(Metric, values))
    drop = next(score for score in scores(history, seed=1, most=8) if score.fault is Fault.DROP)
    assert drop.clear < 0.05
    assert drop.thin_found < 0.5 * drop.thin_put
