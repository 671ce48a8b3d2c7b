"""Sheets become series by what people ask for."""

from __future__ import annotations

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.statistics.rollup import MINUTE, Sheet
from bus.domain.statistics.series import Figures, Series, SeriesGrouping, series_of
from bus.testing.writes import NOON, message, outcome


def sheet_of(*writes: Message | Outcome) -> Sheet:
    sheet = Sheet()
    for write in writes:
        sheet.count(write)
    return sheet


ONE, TWO, MAIL = message(0), message(1, source="till"), message(2, destination="mails")
SHEETS = {
    NOON: sheet_of(ONE, TWO, outcome(ONE, "billing", Status.DELIVERED, ready_at=ONE.ready_at)),
    NOON + MINUTE: sheet_of(MAIL, outcome(TWO, "billing", Status.DEAD), outcome(ONE, "mail", Status.RETRYING)),
}


def found(by: SeriesGrouping | None, *destinations: str) -> dict[tuple[str, ...], Series]:
    return {one.name: one for one in series_of(SHEETS, by, lambda code: not destinations or code in destinations)}


def test_without_a_grouping_all_is_one_series() -> None:
    (series,) = found(None).values()
    assert series.total.accepted == 3
    assert series.total.success_rate == 1 / 3
    assert 8 <= (series.total.latency(0.5) or 0) <= 10
    assert [figures.accepted for figures in series.points.values()] == [2, 1]
    assert list(series.points) == [NOON, NOON + MINUTE]


def test_by_destination_has_both_what_came_and_what_went() -> None:
    series = found(SeriesGrouping.DESTINATION)
    assert list(series) == [("orders",), ("mails",)]
    assert series["orders",].total.accepted == 2
    assert series["orders",].total.counts.ended == {Status.DELIVERED: 1, Status.DEAD: 1}
    assert list(series["mails",].points) == [NOON + MINUTE]


def test_by_subscription_counts_deliveries_only() -> None:
    series = found(SeriesGrouping.SUBSCRIPTION)
    assert list(series) == [("orders", "billing"), ("orders", "mail")]
    assert series["orders", "billing"].total.counts.attempts == 2
    assert series["orders", "mail"].total.success_rate == 0
    assert not any(one.total.accepted for one in series.values())


def test_by_source_counts_messages_only_over_all_destinations() -> None:
    series = found(SeriesGrouping.SOURCE)
    assert {name: one.total.accepted for name, one in series.items()} == {("shop",): 2, ("till",): 1}
    assert not any(one.total.counts.attempts for one in series.values())


def test_only_what_is_wanted_counts() -> None:
    assert list(found(SeriesGrouping.DESTINATION, "mails")) == [("mails",)]
    assert found(None, "mails")[()].total.accepted == 1
    assert not found(None, "none")


def test_nothing_has_no_rate() -> None:
    assert Figures().success_rate is None
    assert Figures().latency(0.5) is None


def test_sheets_are_not_changed() -> None:
    before = sheet_of(outcome(ONE, "billing", Status.DELIVERED))
    sheets = {NOON: before}
    for _ in range(2):
        series_of(sheets, None, lambda _: True)
    assert before == sheet_of(outcome(ONE, "billing", Status.DELIVERED))
