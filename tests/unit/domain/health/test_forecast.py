"""The forecast of a full disk: a steady rise, noise, waves, a deletion, too little data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.health.forecast import WINDOW, Sample, full_in, kept
from bus.domain.times import HOUR, MINUTE

MIB = 2**20
GIB = 2**30


def samples(use: Callable[[int], float], minutes: int = 60) -> list[Sample]:
    """Return a sample a minute of bytes in use at each minute."""
    return [Sample(1_000_000 + minute * MINUTE, round(use(minute))) for minute in range(minutes + 1)]


def hours(found: int | None) -> float | None:
    return None if found is None else found / HOUR


def test_a_steady_rise_goes_on() -> None:
    assert hours(full_in(samples(lambda minute: 5 * GIB + minute * 100 * MIB), 12_000 * MIB)) == pytest.approx(2)


def test_without_room_it_is_full_now() -> None:
    assert full_in([], 0) == 0
    assert full_in(samples(lambda _: 5), -3) == 0


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_trend(seed: int) -> None:
    noise = random.Random(seed)
    assert full_in(samples(lambda _: GIB + noise.gauss(0, 50 * MIB)), 10 * GIB) is None


@pytest.mark.parametrize("seed", range(5))
def test_noise_hides_no_rise_that_is_greater(seed: int) -> None:
    noise = random.Random(seed)
    found = full_in(samples(lambda minute: minute * 100 * MIB + noise.gauss(0, 200 * MIB)), 12_000 * MIB)
    assert hours(found) == pytest.approx(2, rel=0.15)


def test_a_burst_of_a_minute_moves_nothing() -> None:
    found = full_in(samples(lambda minute: minute * MIB + (40 * GIB if minute == 30 else 0)), 120 * MIB)
    assert hours(found) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("period", [3, 5, 7, 10, 13, 15])
@pytest.mark.parametrize("phase", [0, 1, 2, 5])
def test_a_log_that_is_cut_again_and_again_fills_nothing(period: int, phase: int) -> None:
    assert full_in(samples(lambda minute: GIB + (minute + phase) % period * 64 * MIB), GIB) is None


@pytest.mark.parametrize("period", [3, 5, 7, 10])
def test_what_rises_below_a_sawtooth_is_seen(period: int) -> None:
    found = full_in(samples(lambda minute: minute * 100 * MIB + minute % period * 64 * MIB), 12_000 * MIB)
    assert hours(found) == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("at", [10, 20, 30, 40])
def test_after_a_deletion_only_what_came_since_counts(at: int) -> None:
    found = full_in(samples(lambda minute: 200 * GIB + minute * GIB - (100 * GIB if minute >= at else 0)), 120 * GIB)
    assert hours(found) == pytest.approx(2)


def test_right_after_a_deletion_nothing_is_known() -> None:
    assert full_in(samples(lambda minute: 200 * GIB + minute * GIB - (150 * GIB if minute >= 55 else 0)), GIB) is None


def test_what_is_emptied_is_never_full() -> None:
    assert full_in(samples(lambda minute: 200 * GIB - minute * GIB), GIB) is None
    assert full_in(samples(lambda _: 200 * GIB), GIB) is None


@pytest.mark.parametrize("minutes", [0, 1, 5, 14])
def test_few_samples_tell_nothing(minutes: int) -> None:
    assert full_in(samples(lambda minute: minute * GIB, minutes), GIB) is None


def test_many_samples_of_a_moment_tell_nothing() -> None:
    assert full_in([Sample(at, at) for at in range(100)], 1000) is None


def test_samples_are_kept_for_an_hour_and_none_of_a_later_time() -> None:
    found = kept([Sample(0, 1), Sample(5, 2), Sample(WINDOW + 7, 3), Sample(WINDOW + 9, 4)], Sample(WINDOW + 5, 5))
    assert found == [Sample(5, 2), Sample(WINDOW + 5, 5)]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 2**50)), max_size=60), st.integers(0, 2**50))
def test_a_forecast_is_none_or_ahead(steps: Sequence[tuple[int, int]], room: int) -> None:
    at, found = 0, []
    for step, used in steps:
        at += step
        found.append(Sample(at, used))
    forecast = full_in(found, room)
    assert forecast is None or forecast >= 0
