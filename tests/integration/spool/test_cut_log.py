"""A log that was cut while nobody had it open is told from one whose last call was cut off."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bus.spool import BlockingSpool, Options
from bus.spool.inspect import Inspection
from bus.spool.recovery.pages import FRAME_BYTES
from bus.spool.recovery.synced import NAME as MARK
from tests.integration.spool.history import number_of, record

RECORDS = 60
LOG = "spool.db-wal"
OPTIONS = Options(consumers=("send",))


def killed(directory: Path, count: int = RECORDS) -> Path:
    """Append records one by one, and be gone."""
    spool = BlockingSpool(directory, OPTIONS)
    for number in range(count):
        spool.append([record(number, 1_000)])
    spool._engine.crash()
    return directory / LOG


def opened(directory: Path) -> tuple[int, list[int]]:
    """Return how many records are damaged, and the numbers of those that are there."""
    with BlockingSpool(directory, OPTIONS) as spool:
        found = [item for lane in spool.lanes("send") for item in spool.claim("send", 10_000, lane)]
        spool.release("send", found)
        return spool.stats().damaged, sorted(number_of(item.payload) for item in found)


@pytest.mark.parametrize("share", [0, 1 / 3, 2 / 3, 0.99])
def test_what_a_cut_log_has_lost_is_counted_and_logged_once(
    tmp_path: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    log = killed(tmp_path)
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(int(size * share))
    damaged, left = opened(tmp_path)
    assert damaged == RECORDS - len(left) > 0
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert str(log) in told
    assert f"at most {damaged} record(s)" in told
    assert opened(tmp_path) == (damaged, left)
    with Inspection(tmp_path) as inspection:
        assert inspection.overview().damaged == damaged


def test_a_log_that_is_gone_is_noticed(tmp_path: Path) -> None:
    killed(tmp_path).unlink()
    assert opened(tmp_path) == (RECORDS, [])


@pytest.mark.parametrize("bytes_of_it", [1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 7])
def test_the_torn_end_of_a_call_that_never_returned_is_no_damage(
    tmp_path: Path, bytes_of_it: int, caplog: pytest.LogCaptureFixture
) -> None:
    spool, log = BlockingSpool(tmp_path, OPTIONS), tmp_path / LOG
    for number in range(RECORDS):
        spool.append([record(number, 1_000)])
    mark, size = (tmp_path / MARK).read_bytes(), log.stat().st_size
    spool.append([record(RECORDS, 9_000)])
    spool._engine.crash()
    with log.open("r+b") as file:
        file.truncate(size + bytes_of_it)
    (tmp_path / MARK).write_bytes(mark)
    assert opened(tmp_path) == (0, list(range(RECORDS)))
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_a_mark_that_fell_behind_or_is_torn_says_nothing(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path, OPTIONS)
    spool.append([record(0, 10)])
    behind = (tmp_path / MARK).read_bytes()
    spool.append([record(1, 10)])
    spool._engine.crash()
    (tmp_path / MARK).write_bytes(behind)
    assert opened(tmp_path) == (0, [0, 1])
    (tmp_path / MARK).write_bytes(behind[:-1])
    assert opened(tmp_path) == (0, [0, 1])


def test_a_log_that_was_emptied_into_the_file_and_begun_anew_is_whole(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path, OPTIONS)
    for number in range(RECORDS):
        spool.append([record(number, 1_000)])
    spool._engine.checkpoint()
    spool.append([record(RECORDS, 1_000)])
    spool._engine.crash()
    assert opened(tmp_path) == (0, list(range(RECORDS + 1)))
    assert opened(tmp_path) == (0, list(range(RECORDS + 1)))


def test_an_earlier_version_that_had_the_log_meanwhile_is_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed(tmp_path)
    mark = (tmp_path / MARK).read_bytes()
    opened(tmp_path)  # empties the log into the file, as every version does
    (tmp_path / MARK).write_bytes(mark)  # of which an earlier one knows nothing
    assert opened(tmp_path) == (0, list(range(RECORDS)))
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "no record is missing" in caplog.text
