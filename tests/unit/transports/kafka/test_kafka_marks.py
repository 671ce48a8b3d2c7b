"""Marks of topics tell data that was lost from data that is there."""

from __future__ import annotations

import pytest

from bus.transports.kafka.strict.marks import ConfirmedEnds, TopicMark

MARK = TopicMark("id", 5)


@pytest.mark.parametrize(
    ("now", "has"),
    [
        (TopicMark("id", 5), True),
        (TopicMark("id", 9), True),
        (TopicMark("id", 4), False),
        (TopicMark("another", 9), False),
        (TopicMark("", 9), True),
        (TopicMark("", 4), False),
    ],
)
def test_a_topic_has_a_mark_by_its_id_and_end(now: TopicMark, *, has: bool) -> None:
    assert now.has(MARK) is has


def test_a_topic_that_got_an_id_by_an_upgrade_of_its_brokers_is_still_the_same() -> None:
    assert TopicMark("id", 5).has(TopicMark("", 5))
    assert not TopicMark("id", 4).has(TopicMark("", 5))


def test_a_mark_is_raised_to_what_was_confirmed() -> None:
    ends = ConfirmedEnds()
    assert ends.raised("t", MARK) == MARK
    ends.note("t", 9)
    ends.note("t", 7)
    assert ends.raised("t", MARK) == TopicMark("id", 9)
    assert ends.raised("another", MARK) == MARK


@pytest.mark.parametrize("later", [TopicMark("another", 6), TopicMark("id", 0)])
def test_what_was_confirmed_to_data_whose_loss_others_noted_is_forgotten(later: TopicMark) -> None:
    ends = ConfirmedEnds()
    ends.note("t", 9)
    assert ends.raised("t", MARK) == TopicMark("id", 9)
    assert ends.raised("t", later) == later
    assert ends.end("t") == 0
