"""Summaries of the messages of a search, by attribute and period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.delivery import Status
from bus.domain.identity import id_time, new_id
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY, HOUR, MINUTE, SECOND
from bus.domain.tracing.summary import MOST_PERIODS, Attribute, Summary, SummaryBuilder
from bus.domain.tracing.trace import Trace, merge_message, merge_outcome, start_trace
from bus.testing.writes import NOON, message, outcome


def trace(at: int = 0, reasons: dict[str, str] | None = None, **changes: Any) -> Trace:
    """Make a message of so many milliseconds after noon whose deliveries died of their reasons, or are delivered."""
    reasons = reasons or {"billing": ""}
    sent = message(id=new_id(NOON + at), expected=tuple(reasons), **changes)
    found = start_trace(sent.id, sent.destination, sent.retention_days)
    merge_message(found, sent)
    for name, reason in reasons.items():
        merge_outcome(found, outcome(sent, name, Status.DEAD if reason else Status.DELIVERED, reason=reason))
    return found


def summary(traces: Sequence[Trace], *, since: int | None = NOON, before: int = NOON + HOUR, **asked: Any) -> Summary:
    summing = SummaryBuilder(Selection(**asked))
    for one in traces:
        summing.add(one)
    return summing.result(since, before)


def shared(found: Summary) -> dict[Attribute, tuple[list[tuple[str, int]], int]]:
    return {one.attribute: (one.values, one.others) for one in found.shared}


def test_what_is_common_is_told_and_what_each_has_of_its_own_is_not() -> None:
    traces = [
        trace(n, key=f"k-{n}", source="shop" if n < 7 else f"s-{n}", headers={"X-Tenant": "north", "x-request": f"{n}"})
        for n in range(10)
    ]
    found = shared(summary(traces))
    assert found[Attribute("source")] == ([("shop", 7)], 3)
    assert found[Attribute("header", "x-tenant")] == ([("north", 10)], 0)
    assert found[Attribute("subscription")] == ([("billing", 10)], 0)
    assert Attribute("key") not in found
    assert Attribute("header", "x-request") not in found


def test_what_is_too_long_to_tell_takes_no_room() -> None:
    found = shared(summary([trace(n, headers={"x-long": "x" * 513, "x-short": "y" * 512}) for n in range(3)]))
    assert found[Attribute("header", "x-short")] == ([("y" * 512, 3)], 0)
    assert Attribute("header", "x-long") not in found


def test_what_was_asked_for_is_not_told_as_common() -> None:
    found = shared(summary([trace(0), trace(1)], destination="orders", source="shop"))
    assert not {Attribute("destination"), Attribute("source")} & set(found)


def test_only_deliveries_that_were_asked_for_count() -> None:
    traces = [trace(n, {"billing": "HTTP 503", "mail": ""}) for n in range(3)]
    found = summary(traces, subscription="mail")
    assert [dict(one.states) for one in found.periods] == [{Status.DELIVERED: 3}]
    assert Attribute("signature") not in shared(found)
    found = summary(traces, signature="HTTP 503")
    assert [dict(one.states) for one in found.periods] == [{Status.DEAD: 3}]
    assert shared(found)[Attribute("subscription")] == ([("billing", 3)], 0)


def test_what_all_have_differently_takes_bounded_room() -> None:
    summing = SummaryBuilder(Selection())
    for n in range(2_000):
        summing.add(trace(n, source=f"s-{n}", headers={f"x-{n}": "1", "x-same": "2"}))
    found = shared(summing.result(NOON, NOON + HOUR))
    assert Attribute("source") not in found
    assert found[Attribute("header", "x-same")] == ([("2", 2_000)], 0)


@pytest.mark.parametrize(
    ("length", "step"),
    [(1, SECOND), (MINUTE, SECOND), (HOUR, MINUTE), (DAY, HOUR), (7 * DAY, 3 * HOUR), (365 * DAY, 7 * DAY)],
)
def test_a_range_has_few_periods_of_a_length_that_people_know(length: int, step: int) -> None:
    assert summary([], before=NOON + length).step == step


@given(st.lists(st.integers(0, 400 * DAY), max_size=30), st.booleans())
def test_each_message_is_in_the_one_period_of_its_time(times: list[int], with_since: bool) -> None:
    traces = [trace(at) for at in times]
    found = summary(traces, since=NOON if with_since else None, before=NOON + max(times, default=0) + 1)
    assert found.messages == len(times) == sum(sum(one.states.values()) for one in found.periods)
    starts = [one.start for one in found.periods]
    assert starts == sorted({id_time(one.id) // found.step * found.step for one in traces})
    assert all(start % found.step == 0 and found.since <= start < found.before for start in starts)
    assert (found.before - found.since) / found.step <= MOST_PERIODS + 1
