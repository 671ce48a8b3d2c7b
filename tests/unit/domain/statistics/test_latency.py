"""Quantiles estimated from counts per range are within the stated error."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.statistics.latency import BOUNDS, GREATEST_ERROR, place_of, quantile


def test_the_ranges_are_narrow_and_reach_from_a_millisecond_to_an_hour() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert (BOUNDS[0], BOUNDS[-1]) == (1, 3_600_000)
    assert pytest.approx(5 / 3) == GREATEST_ERROR


@pytest.mark.parametrize(
    ("milliseconds", "upper"), [(0, 1), (1, 1), (2, 2), (6, 7), (7, 7), (8, 10), (3_600_000, 3_600_000)]
)
def test_a_time_is_in_the_range_that_ends_at_or_after_it(milliseconds: int, upper: int) -> None:
    assert BOUNDS[place_of(milliseconds)] == upper


def test_above_an_hour_is_a_range_of_its_own() -> None:
    assert place_of(3_600_001) == place_of(10**12) == len(BOUNDS)
    assert quantile({len(BOUNDS): 3}, 0.5) == 3_600_000


def test_nothing_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({3: 0}, 0.5) is None


@given(
    st.lists(st.integers(min_value=2, max_value=3_600_000), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_an_estimate_is_within_the_error(times: list[int], share: float) -> None:
    true = sorted(times)[max(0, -int(-share * len(times) // 1) - 1)]
    found = quantile(Counter(map(place_of, times)), share)
    assert found is not None
    assert true / GREATEST_ERROR <= found * 1.000001
    assert found <= true * GREATEST_ERROR * 1.000001


@given(st.lists(st.integers(min_value=0, max_value=4_000_000), min_size=1, max_size=50))
def test_a_greater_share_never_has_a_smaller_time(times: list[int]) -> None:
    counts = Counter(map(place_of, times))
    found = [quantile(counts, share / 20) or 0.0 for share in range(1, 21)]
    assert found == sorted(found)
