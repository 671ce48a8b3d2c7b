"""Times and durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.durations import LONGEST, format_duration, parse_duration
from bus.domain.times import DAY, day_of, day_start, format_time, parse_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000),
        ("2026-01-31t10:00:00z", 1_769_853_600_000),
        ("2026-01-31 10:00:00.0009999Z", 1_769_853_600_000),
        ("2026-01-31T10:00:00.123456789Z", 1_769_853_600_123),
    ],
)
def test_a_time_is_read(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@given(st.datetimes(timezones=zones))
def test_every_time_that_is_taken_can_be_written_again(moment: datetime) -> None:
    try:
        time = parse_time(moment.isoformat())
    except ValueError:
        assert moment - EPOCH < datetime.min.replace(tzinfo=UTC) - EPOCH or (
            moment - EPOCH > datetime.max.replace(tzinfo=UTC) - EPOCH
        )
    else:
        assert time == (moment - EPOCH) // timedelta(milliseconds=1)
        assert parse_time(format_time(time)) == time
        assert len(format_time(time)) == len("2026-01-31T12:00:00.000Z")


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "12:00", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "2026-01-31T25:00:00Z", "é", "9" * 5000),
        *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z", "2026-01-31T12:00:60Z"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


def test_what_is_no_time_is_told_how_one_is_written() -> None:
    with pytest.raises(ValueError, match=r"^'tomorrow' is not a time such as 2026-01-31T12:00:00Z$"):
        parse_time("tomorrow")


def test_times_of_one_second_differ_in_their_milliseconds() -> None:
    assert [format_time(time) for time in (1000, 1007, 1999)] == [
        "1970-01-01T00:00:01.000Z",
        "1970-01-01T00:00:01.007Z",
        "1970-01-01T00:00:01.999Z",
    ]


@given(st.integers(0, 40_000))
def test_a_day_begins_where_the_one_before_ends(day: int) -> None:
    assert day_of(day * DAY) == day_of(day * DAY + DAY - 1) == format_time(day * DAY)[:10].replace("-", "")
    assert day_start(day_of(day * DAY + 5)) == day * DAY


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("5s", 5000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("7d", 7 * DAY),
        ("1.5h", 5_400_000),
        (" 0s ", 0),
    ],
)
def test_a_duration_is_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "-5s",
        "5 s",
        "5sec",
        "1h30m",
        "1e3s",
        "٣s",
        ".5s",
        "5.s",
        "nans",
        "3651d",
        "9" * 400 + "d",
        "5s\n5s",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer than 3650d"):
        parse_duration(text)


@given(st.integers(0, LONGEST))
def test_a_duration_is_written_exactly(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


def test_a_duration_is_written_short() -> None:
    assert [format_duration(ms) for ms in (0, 1500, 5000, 120_000, 3_600_000, DAY, 90_000)] == [
        *("0ms", "1500ms", "5s", "2m", "1h", "1d", "90s")
    ]
