"""The size of an embedded store's files, and a log that a reader keeps from its file."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from bus.ports.store_health import StoreHealth
from bus.stores.sqlite import SqliteStore
from bus.stores.sqlite.file_sizes import read_sizes
from bus.testing.writes import message


async def test_a_store_tells_how_large_it_is(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    assert isinstance(store, StoreHealth)
    before = (await store.health()).bytes
    await store.write([message(number, body=bytes(10_000)) for number in range(50)])
    found = await store.health()
    assert found.bytes > before + 500_000 > 500_000
    assert 0 < found.log < found.bytes
    assert found.unfolded < 60_000
    await store.close()


def test_a_log_that_a_reader_keeps_from_its_file_is_behind(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    writer, reader = apsw.Connection(str(path)), apsw.Connection(str(path))
    writer.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").fetchall()
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    os.utime(path, (1, path.stat().st_mtime - 3600))
    reader.execute("BEGIN; SELECT * FROM t").fetchall()
    for _ in range(20):
        writer.execute("INSERT INTO t VALUES (zeroblob(1000000))").fetchall()
    held = read_sizes(tmp_path)
    assert held.log > 15_000_000
    assert 3_500_000 < held.unfolded < 3_700_000
    reader.execute("COMMIT").fetchall()
    writer.execute("INSERT INTO t VALUES (1)").fetchall()
    writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    assert read_sizes(tmp_path).unfolded < 60_000
    reader.close()
    writer.close()


def test_what_is_gone_meanwhile_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "a.db-wal").write_bytes(b"x" * 100)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert read_sizes(tmp_path) == type(read_sizes(tmp_path))(bytes=100, log=100)
