"""Counters of a period, and which period draws a range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.statistics.latency import place_of
from bus.domain.statistics.rollup import (
    MINUTE,
    MOST_POINTS,
    MOST_SOURCES,
    OTHER_SOURCES,
    RESOLUTIONS,
    DeliveryCounts,
    Sheet,
    added_up,
    decode_sheet,
    encode_sheet,
    resolution_for,
)
from bus.domain.times import DAY
from bus.testing.writes import DESTINATION, NOON, message, outcome

HOUR = 60 * MINUTE


def sheet_of(*writes: Message | Outcome) -> Sheet:
    sheet = Sheet()
    for write in writes:
        sheet.count(write)
    return sheet


def billing(*writes: Message | Outcome) -> DeliveryCounts:
    return sheet_of(*writes).deliveries[DESTINATION]["billing"]


def test_messages_count_by_destination_and_source() -> None:
    sheet = sheet_of(message(0), message(1), message(2, source="till"), message(3, destination="mails"))
    assert sheet.accepted == {DESTINATION: {"shop": 2, "till": 1}, "mails": {"shop": 1}}
    assert not sheet.deliveries


def test_a_delivery_counts_its_attempts_and_its_end() -> None:
    one = message(0)
    counts = billing(
        outcome(one, "billing", Status.RETRYING, 1),
        outcome(one, "billing", Status.RETRYING, 2),
        outcome(one, "billing", Status.DELIVERED, 3, ready_at=one.ready_at),
    )
    assert (counts.attempts, counts.failed) == (3, 2)
    assert counts.ended == {Status.DELIVERED: 1}
    assert counts.latency == {place_of(30): 1}


def test_an_end_without_a_post_is_no_attempt() -> None:
    counts = billing(outcome(message(0), "billing", Status.SKIPPED, attempt=None))
    assert (counts.attempts, counts.failed, counts.latency) == (0, 0, {})
    assert counts.ended == {Status.SKIPPED: 1}


def test_a_resend_has_no_latency() -> None:
    counts = billing(outcome(message(0), "billing", Status.DELIVERED, generation=1))
    assert counts.latency == {}
    assert counts.ended == {Status.DELIVERED: 1}


def test_a_clock_that_is_behind_counts_as_at_once() -> None:
    counts = billing(outcome(message(0), "billing", Status.DELIVERED, at=NOON - 5, ready_at=NOON))
    assert counts.latency == {0: 1}


def test_sources_that_nobody_bounds_are_bounded() -> None:
    sheet = sheet_of(*(message(number, source=f"s{number}") for number in range(MOST_SOURCES + 5)))
    assert len(sheet.accepted[DESTINATION]) == MOST_SOURCES + 1
    assert sheet.accepted[DESTINATION][OTHER_SOURCES] == 5
    total = added_up([sheet, sheet_of(message(0, source="late"))])
    assert total.accepted[DESTINATION][OTHER_SOURCES] == 6


WRITES = st.lists(
    st.one_of(
        st.builds(lambda number, source: message(number, source=source), st.integers(0, 9), st.sampled_from("ab")),
        st.builds(
            lambda name, status, at: outcome(message(0), name, status, at=at, ready_at=NOON),
            st.sampled_from(["billing", "mail"]),
            st.sampled_from([Status.DELIVERED, Status.RETRYING, Status.DEAD]),
            st.integers(NOON, NOON + HOUR),
        ),
    ),
    max_size=12,
)


@given(st.lists(WRITES, max_size=4), st.randoms())
def test_sheets_add_up_in_any_order(parts: list[list[Message | Outcome]], order: object) -> None:
    sheets = [sheet_of(*part) for part in parts]
    whole = sheet_of(*(write for part in parts for write in part))
    order.shuffle(sheets)
    assert added_up(sheets) == whole
    assert decode_sheet(encode_sheet(whole)) == whole


@pytest.mark.parametrize(
    ("length", "ago", "step"),
    [
        (HOUR, 0, MINUTE),
        (3 * HOUR, 0, MINUTE),
        (DAY, 0, 10 * MINUTE),
        (7 * DAY, 0, HOUR),
        (30 * DAY, 0, DAY),
        (400 * DAY, 0, DAY),
        (HOUR, DAY, 10 * MINUTE),
        (HOUR, 10 * DAY, HOUR),
        (HOUR, 300 * DAY, DAY),
    ],
)
def test_the_period_fits_the_range_and_is_still_kept(length: int, ago: int, step: int) -> None:
    assert resolution_for(NOON - ago - length, NOON - ago, NOON).step == step


def test_only_days_are_more_than_fit() -> None:
    for resolution in RESOLUTIONS[:-1]:
        assert MOST_POINTS * resolution.step <= resolution.kept or resolution.step == RESOLUTIONS[-2].step
        assert resolution.start(NOON + 1) == NOON
