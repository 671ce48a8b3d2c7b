"""Up to when emitters were heard is told by what arrived: no clock of one of them has others taken for gone."""

import datetime as dt

import pytest
from pyspark.sql import Row

from pipeline.transforms.hearing import Patience, watermark_of

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
