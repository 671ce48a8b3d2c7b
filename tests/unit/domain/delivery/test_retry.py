"""The time of the next attempt, and the end of retries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.retry import (
    DEFAULT_SCHEDULE,
    JITTER,
    RETRY_AFTER_CAP,
    Exponential,
    RetryPolicy,
    Schedule,
    format_waits,
    parse_retry_after,
    parse_waits,
)
from bus.domain.times import DAY, parse_time

NOW = 1_795_262_400_000
MIDDLE = 0.5


def due(policy: RetryPolicy, tries: int, *, age: int = 0, noise: float = MIDDLE, retry_after: int | None = None):
    found = policy.next_due(tries=tries, since=NOW - age, now=NOW, noise=noise, retry_after=retry_after)
    return found - NOW if found is not None else None


def test_the_default_is_that_of_the_contract() -> None:
    policy = RetryPolicy()
    waits = [due(policy, tries) for tries in range(1, 11)]
    minute, hour = 60_000, 3_600_000
    assert waits == [5000, 30_000, 2 * minute, 10 * minute, hour, 3 * hour, 8 * hour] + [12 * hour] * 3
    assert due(policy, 1000, age=7 * DAY - 1) == 1
    assert due(policy, 1000, age=7 * DAY) is None
    assert policy.max_attempts is None


def test_an_explicit_schedule_repeats_its_last_wait() -> None:
    policy = RetryPolicy(Schedule((100, 200)))
    assert [due(policy, tries) for tries in (1, 2, 3, 99)] == [100, 200, 200, 200]


def test_exponential_waits_grow_to_their_most() -> None:
    policy = RetryPolicy(Exponential(1000, 3, 20_000))
    assert [due(policy, tries) for tries in (1, 2, 3, 4, 10_000_000)] == [1000, 3000, 9000, 20_000, 20_000]
    assert [due(RetryPolicy(Exponential(1000, 1, 2000)), tries) for tries in (1, 50)] == [1000, 1000]


def test_the_limit_by_count_allows_so_many_attempts() -> None:
    policy = RetryPolicy(Schedule((100,)), max_attempts=3)
    assert [due(policy, tries) for tries in (1, 2, 3, 4)] == [100, 100, None, None]


def test_the_last_retry_comes_when_the_age_is_reached_not_after_it() -> None:
    policy = RetryPolicy(Schedule((1000,)), max_age=5000)
    assert [due(policy, 9, age=age) for age in (0, 4000, 4500, 5000, 9000)] == [1000, 1000, 500, None, None]


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 12))
def test_jitter_stays_within_a_fifth(noise: float, tries: int) -> None:
    wait = RetryPolicy().waits.wait(tries)
    found = due(RetryPolicy(), tries, noise=noise)
    assert wait * (1 - JITTER) - 1 <= found <= wait * (1 + JITTER) + 1


def test_jitter_uses_its_whole_width() -> None:
    policy = RetryPolicy(Schedule((10_000,)))
    assert [due(policy, 1, noise=noise) for noise in (0, 0.25, 0.5, 0.999999)] == [8000, 9000, 10_000, 12_000]


def test_retry_after_lengthens_a_wait_up_to_its_cap_and_never_shortens_it() -> None:
    policy = RetryPolicy(Schedule((1000,)))
    assert [due(policy, 1, retry_after=after) for after in (0, 500, 7000, 99 * DAY)] == [1000, 1000, 7000, DAY]


def test_retry_after_does_not_outlive_the_age() -> None:
    assert due(RetryPolicy(Schedule((1000,)), max_age=5000), 1, retry_after=60_000) == 5000
    assert due(RetryPolicy(Schedule((1000,)), max_attempts=1), 1, retry_after=60_000) is None


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("0", 0),
        (" 7 ", 7000),
        ("86401", DAY),
        ("9" * 5000, DAY),
        (format_datetime(datetime.fromtimestamp(NOW / 1000 + 90, UTC), usegmt=True), 90_000),
        (format_datetime(datetime.fromtimestamp(NOW / 1000 - 90, UTC), usegmt=True), 0),
        (format_datetime(datetime.fromtimestamp(NOW / 1000 + 90, UTC)), 90_000),
        (
            format_datetime((datetime.fromtimestamp(NOW / 1000, UTC) + timedelta(seconds=90)).replace(tzinfo=None)),
            90_000,
        ),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY),
        ("Fri, 31 Dec 9999 23:59:59 -2359", DAY),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, milliseconds: int) -> None:
    assert parse_retry_after(value, NOW) == milliseconds


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "  ",
        "soon",
        "-5",
        "1.5",
        "1, 2",
        "²",
        "١٢",
        "Mon, 99 Foo 2026 00:00:00 GMT",
        "Mon, 01 Jan 2026 25:00:00 GMT",
    ],
)
def test_garbage_says_nothing(value: str | None) -> None:
    assert parse_retry_after(value, NOW) is None


words = st.sampled_from(
    [
        *("Mon,", "1", "99", "Jan", "Foo", "2026", "0", "9999", "12:00:00", "24:61:99", "GMT", "-0000", "+9999", "EST"),
        *("::", "(", "\x00", "²", ",", "1e9"),
    ]
)


@given(st.text(st.characters(max_codepoint=255), max_size=30) | st.lists(words, max_size=8).map(" ".join))
def test_no_header_of_a_subscriber_does_harm(value: str) -> None:
    for found in (parse_retry_after(value, NOW), parse_retry_after("Wed, 21 Oct 2026 07:28:00 GMT", NOW, value)):
        assert found is None or 0 <= found <= RETRY_AFTER_CAP


@pytest.mark.parametrize("ahead", [-DAY, 0, DAY])
def test_a_date_to_retry_after_counts_from_the_answers_own_date(ahead: int) -> None:
    sent, wanted = "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:30 GMT"
    now = parse_time("2026-10-21T07:28:00Z") + ahead
    assert parse_retry_after(wanted, now, sent) == 30_000
    assert parse_retry_after("7", now, sent) == 7_000
    assert parse_retry_after(wanted, now, "no date") == (30_000 if not ahead else {DAY: 0, -DAY: DAY}[ahead])


@given(
    st.lists(st.integers(0, DAY), min_size=1).map(lambda waits: Schedule(tuple(waits)))
    | st.builds(Exponential, st.integers(1, 5000), st.floats(1, 100), st.integers(5000, DAY))
)
def test_waits_are_written_as_they_are_read(waits) -> None:
    assert parse_waits(format_waits(waits)) == waits


def test_both_forms_of_waits_are_read() -> None:
    assert parse_waits(list(DEFAULT_SCHEDULE)) == RetryPolicy().waits
    assert parse_waits({"first": "5s", "factor": 3, "max": "12h"}) == Exponential(5000, 3, 43_200_000)


@pytest.mark.parametrize(
    "form",
    [
        *([], ["5"], ["5s", "soon"], {}, {"first": "5s"}, {"first": "5s", "factor": 3, "max": "1h", "more": 1}),
        {"first": "5s", "factor": 0.5, "max": "12h"},
        {"first": "5s", "factor": 101, "max": "12h"},
        {"first": "5s", "factor": float("nan"), "max": "12h"},
        {"first": "0s", "factor": 2, "max": "12h"},
        {"first": "5s", "factor": 2, "max": "4s"},
        {"first": "5s", "factor": "x", "max": "6s"},
    ],
)
def test_impossible_waits_are_refused(form) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_waits(form)
