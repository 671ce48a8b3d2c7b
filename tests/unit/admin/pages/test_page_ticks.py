"""Labels of an axis stand at times that people read at a glance, of their own clock."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from admin.pages.parts.ticks import round_ticks
from admin.pages.viewer import Viewer
from bus.domain.times import DAY, HOUR, MINUTE, SECOND, format_time

NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z


def labels(zone: str, since: int, length: int, step: int) -> list[str]:
    viewer: Any = object.__new__(Viewer)
    viewer.zone = ZoneInfo(zone)
    times = [format_time(at) for at in range(since, since + length, step)]
    shown = viewer.periods(format_time(since), format_time(since + length), step // SECOND)
    return [shown[place][1] for place in round_ticks(viewer, times)]


@pytest.mark.parametrize(
    ("zone", "since", "length", "step", "expected"),
    [
        ("UTC", NOON + 7 * MINUTE, HOUR, MINUTE, ["12:10", "12:20", "12:30", "12:40", "12:50", "13:00"]),
        ("Asia/Kathmandu", NOON, HOUR, MINUTE, ["17:50", "18:00", "18:10", "18:20", "18:30", "18:40"]),
        (
            "Asia/Shanghai",
            NOON,
            DAY,
            10 * MINUTE,
            ["21:00", "00:00", "03:00", "06:00", "09:00", "12:00"],
        ),
        ("UTC", NOON, 8 * SECOND, SECOND, ["12:00:00", "12:00:01"]),
        ("UTC", NOON, 7 * DAY, HOUR, ["11-22 00:00", "11-23 00:00", "11-24 00:00", "11-25 00:00"]),
    ],
)
def test_labels_are_round(zone: str, since: int, length: int, step: int, expected: list[str]) -> None:
    assert labels(zone, since, length, step)[: len(expected)] == expected


def test_there_is_no_label_where_there_is_no_time() -> None:
    assert labels("UTC", NOON, 0, MINUTE) == []
