"""A producer's queue report: written and read again, and invalid ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.queue_report import QueueReport, parse_queue_report


@given(st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1), st.integers(0, 2**32 - 1))
def test_what_is_written_is_read(records: int, oldest: int, number: int) -> None:
    report = QueueReport(records, oldest, f"{number:08x}")
    assert parse_queue_report(report.text.encode()) == report


def test_a_clock_that_was_put_back_makes_nothing_younger_than_new() -> None:
    assert QueueReport(1, -5, "0a1b2c3d").text == "records=1, oldest_ms=0, id=0a1b2c3d"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"records=1",
        b"records=-1, oldest_ms=0, id=0a1b2c3d",
        b"records=1, oldest_ms=0, id=0A1B2C3D",
        b"records=1, oldest_ms=0, id=0a1b2c3d, more=1",
        b"records=9999999999999999, oldest_ms=0, id=0a1b2c3d",
        b"records=\xd9\xa1, oldest_ms=0, id=0a1b2c3d",
        b"records=1, oldest_ms=0, id=0a1b2c3d" + b" " * 100_000,
    ],
)
def test_what_nobody_writes_says_nothing(text: bytes) -> None:
    assert parse_queue_report(text) is None
