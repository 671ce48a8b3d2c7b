"""One lane never keeps the others out of the last part of a spool."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.quota import A_LITTLE, DEFAULT_SHARE, SpoolCapacity

LIMIT = 3000


def test_a_lane_takes_its_share_and_no_more() -> None:
    assert SpoolCapacity(held=100, total=100, free=900).takes(0.5, 400)
    assert not SpoolCapacity(held=100, total=100, free=900).takes(0.5, 401)


def test_what_others_hold_makes_no_share_smaller() -> None:
    assert SpoolCapacity(held=100, total=900, free=100).takes(0.5, 400)


def test_an_empty_lane_takes_one_record_of_any_size() -> None:
    assert SpoolCapacity(held=0, total=900, free=100).takes(0.1, 5000)


def test_a_disk_smaller_than_the_limit_is_what_is_shared() -> None:
    """The share is of what fits, so that a lane stops before the disk's reserve is reached."""
    assert SpoolCapacity(held=100, total=100, free=100).takes(0.66, 32)
    assert not SpoolCapacity(held=100, total=100, free=100).takes(0.66, 33)


def test_a_spool_that_takes_nothing_says_so_itself() -> None:
    assert SpoolCapacity(held=100, total=100, free=0).takes(0.66, 1)
    assert SpoolCapacity(held=100, total=100, free=-5).takes(0.66, 1)


def test_with_the_disk_at_its_reserve_a_little_of_what_was_accepted_flows_on() -> None:
    for free in (0, -5):
        assert SpoolCapacity(held=100, total=2 * A_LITTLE, free=free).moves(0.01, 1000)
        assert not SpoolCapacity(held=A_LITTLE, total=2 * A_LITTLE, free=free).moves(0.9, 1)
        assert SpoolCapacity(held=0, total=2 * A_LITTLE, free=free).moves(0.9, 2 * A_LITTLE)


def test_what_was_accepted_has_the_same_share() -> None:
    assert SpoolCapacity(held=100, total=100, free=900).moves(0.5, 400)
    assert not SpoolCapacity(held=100, total=100, free=900).moves(0.5, 401)


@given(st.lists(st.integers(1, LIMIT // 3), max_size=60))
def test_the_last_third_is_left_to_others(sizes: list[int]) -> None:
    held = 0
    for size in sizes:
        if SpoolCapacity(held, held, LIMIT - held).takes(DEFAULT_SHARE, size):
            held += size
    assert LIMIT - held >= LIMIT / 3
