"""Up to when emitters were heard is told by what arrived: no clock of one of them has others taken for gone."""

import datetime as dt

import pytest
from pyspark.sql import Row

from pipeline.transforms.hearing import Patience, broken_off, watermark_of

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PATIENCE = Patience(allowance=600)


def emitter(last: int, arrived: int) -> Row:
    """Return one by the minutes after noon up to which it told, and when its last block arrived."""
    return Row(last=NOON + dt.timedelta(minutes=last), arrived=NOON + dt.timedelta(minutes=arrived))


@pytest.mark.parametrize(
    ("emitters", "minutes"),
    [
        ([(60, 60), (58, 58)], 58),
        ([(60, 60), (45, 45)], 60),
        ([(60, 60), (-60, 60)], -60),
    ],
    ids=["all that live", "one that is gone", "a clock that is two hours behind"],
)
def test_judgement_waits_for_all_that_live(emitters: list[tuple[int, int]], minutes: int) -> None:
    found = watermark_of([emitter(*each) for each in emitters], PATIENCE)
    assert found == NOON + dt.timedelta(minutes=minutes)


def test_nobody_was_heard() -> None:
    assert watermark_of([], PATIENCE) is None


def gone(role: str = "receiver", *, arrived: int = 0, ended: bool | None = False) -> Row:
    return Row(role=role, arrived=NOON + dt.timedelta(minutes=arrived), ended=ended)


LIVE = gone(arrived=60)


@pytest.mark.parametrize(
    ("emitter", "is_broken"),
    [
        (gone(), True),
        (gone("dispatcher+compensator"), True),
        (gone(ended=True), False),
        (gone(ended=None), False),
        (gone("producer"), False),
        (gone(arrived=55), False),
        (gone(arrived=-120), False),
    ],
    ids=["killed", "another role", "ended", "of an earlier version", "a producer", "lives", "before the range"],
)
def test_a_process_that_is_gone_without_a_last_block_was_broken_off(emitter: Row, is_broken: bool) -> None:
    since = NOON - dt.timedelta(hours=1)
    assert broken_off([emitter, LIVE], PATIENCE, since, None) == [emitter] * is_broken


def test_processes_that_nobody_outlived_are_judged_by_what_is_known_to_have_arrived() -> None:
    assert broken_off([gone()], PATIENCE, None, None) == []
    assert broken_off([gone()], PATIENCE, None, NOON + dt.timedelta(minutes=9)) == []
    assert broken_off([gone()], PATIENCE, None, NOON + dt.timedelta(minutes=11)) == [gone()]
    assert broken_off([], PATIENCE, None, NOON) == broken_off([], PATIENCE, None, None) == []


def test_no_process_that_lives_is_gone_however_short_the_allowance() -> None:
    assert broken_off([gone(arrived=53), LIVE], Patience(allowance=1), None, None) == []
    assert broken_off([gone(arrived=50), LIVE], Patience(allowance=1), None, None) == [gone(arrived=50)]
