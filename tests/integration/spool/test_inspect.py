"""Looking into a spool that is live, closed, killed or damaged, without taking it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.errors import SpoolError
from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool, Options
from bus.spool.inspect import Inspection, spools


def test_a_live_spool(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path, Options(consumers=("send", "store"))) as spool, Inspection(tmp_path) as inspection:
        spool.append([NewRecord("a", b"%d" % number, number) for number in range(5)])
        spool.append([NewRecord("b", b"x", 9)])
        spool.ack("send", spool.claim("send", 2, "a"))
        spool.settle()
        seen = inspection.overview()
        assert seen.live
        assert (seen.records, seen.bytes) == spool.stats()[:2]
        assert seen.consumers == spool.stats().consumers
        assert [record.payload for record in inspection.peek("a", 3)] == [b"0", b"1", b"2"]
        assert len(inspection.peek("a", 30)) == 5
        assert inspection.peek("nowhere") == []
        spool.append([NewRecord("b", b"y", 10)])
        assert inspection.overview().records == 7
        assert inspection.quarantine() == []
        assert seen.idle < 60


def test_a_spool_that_was_killed_keeps_its_log(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append([NewRecord("a", b"1", 1)])
    spool._engine.crash()
    log = (tmp_path / "spool.db-wal").read_bytes()
    with Inspection(tmp_path) as inspection:
        assert not inspection.overview().live
        assert inspection.overview().records == 1
    assert (tmp_path / "spool.db-wal").read_bytes() == log
    with BlockingSpool(tmp_path) as spool:
        assert spool.stats().records == 1


def test_what_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="no spool"):
        Inspection(tmp_path)
    (tmp_path / "spool.db").write_bytes(b"nothing like it " * 999)
    with Inspection(tmp_path) as inspection, pytest.raises(SpoolError, match="cannot be read"):
        inspection.overview()


def test_spools_below_a_directory(tmp_path: Path) -> None:
    for name in ("one", "two/deep"):
        BlockingSpool(tmp_path / name).close()
    (tmp_path / "one" / "spool.db").write_bytes(b"garbage " * 999)
    BlockingSpool(tmp_path / "one").close()
    assert spools(tmp_path) == [tmp_path / "one", tmp_path / "two" / "deep"]
    with Inspection(tmp_path / "one") as inspection:
        assert len(inspection.overview().evidence) == 1
        assert inspection.overview().damaged == 1
