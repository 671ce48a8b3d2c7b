"""Two stores on one directory, as two processes have it: what each knows of what the other did."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.errors import StoreError, StoreUnavailable
from bus.ports.store import DeliveryKey
from bus.stores.sqlite import SqliteStore, connection, control_sql, locking
from bus.stores.sqlite.connection import open_reader, open_writer
from bus.stores.sqlite.keys import Label, day_number, id_key
from bus.stores.sqlite.partitions.directory import Directory
from bus.testing.contracts.store_traces import search_all
from bus.testing.writes import DESTINATION, NOON, message, outcome, row

LANE = (DESTINATION, "billing")
FILE = "traces-20261121-1d.db"
LATE = NOON + 9 * DAY
LONG = 60.0  # seconds that no wait of a test may come to
AT_ONCE = LONG / 2


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    stores = [await SqliteStore.open(tmp_path) for _ in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        await store.close()


def done(number: int = 0):
    """Make a message of a partition that is past its retention, with nothing to deliver."""
    return message(number, retention_days=1, expected=())


def partition_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("traces*"))


async def test_a_partition_that_another_made_is_seen(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = pair
    for day in range(4):
        sent = message(day * DAY)
        await one.write([sent])
        assert await other.message(sent.id) == sent
        assert (await search_all(other, Selection()))[0] == sent.id
        await other.write([outcome(sent, "billing", Status.DELIVERED)])
        key = DeliveryKey(sent.id, sent.retention_days, "billing", 0)
        assert await one.finished([key]) == {key}


async def test_a_dropped_partition_is_not_written_or_read_any_more(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    one, other = pair
    for number in range(3):
        sent = done(number)
        await one.write([sent])
        await other.write([sent])
        assert await search_all(other, Selection()) == [sent.id]
        assert await one.expire(LATE) == (["20261121-1d"], [])
        assert partition_files(tmp_path) == []
        assert await other.trace(sent.id) is None
        assert await search_all(other, Selection()) == []
        late = done(100 + number)
        await other.write([late])
        assert await one.message(late.id) == late
        assert await other.expire(LATE) == (["20261121-1d"], [])
    assert await one.expire(LATE) == ([], [])


async def test_closing_a_dropped_file_does_not_touch_the_new_one(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    """SQLite removes the log of the last connection by its name."""
    one, _ = pair
    third = await SqliteStore.open(tmp_path)
    await one.write([done()])
    await third.write([done(1)])
    await one.expire(LATE)
    await one.write([done(2)])
    await third.close()
    assert (tmp_path / f"{FILE}-wal").stat().st_size > 0
    await one.write([done(3)])
    again = await SqliteStore.open(tmp_path)
    assert await search_all(again, Selection()) == [done(3).id, done(2).id]
    await again.close()


async def test_dropped_files_are_closed_when_another_is_opened(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = pair
    await other.write([done()])
    await search_all(other, Selection())
    await one.expire(LATE)
    assert _deleted_files()
    await other.write([message(DAY)])
    await search_all(other, Selection())
    assert not _deleted_files()


def _deleted_files() -> list[str]:
    links = (os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir())
    return [link for link in links if "traces-" in link and link.endswith("(deleted)")]


@pytest.mark.parametrize("left", [("-wal", "-shm"), ("-shm",), ()])
async def test_a_drop_that_was_cut_off_is_finished_before_the_file_is_made_again(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    """The dropper was killed after the rename; another process has the old files open all the time."""
    store = await SqliteStore.open(tmp_path)
    await store.write([done()])
    path = tmp_path / FILE
    path.rename(tmp_path / f"{FILE}.dropped")
    for suffix in {"-wal", "-shm"}.difference(left):
        (tmp_path / f"{FILE}{suffix}").unlink()
    await store.write([done(1)])
    assert partition_files(tmp_path) == [FILE, f"{FILE}-shm", f"{FILE}-wal"]
    assert await search_all(store, Selection()) == [done(1).id]
    await store.close()
    with apsw.Connection(str(path)) as opened:
        assert opened.pragma("integrity_check") == "ok"


def damage(path: Path) -> None:
    """Zero all pages of a file but the first."""
    tool = apsw.Connection(str(path))
    assert tool.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
    tool.close()
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(bytes(path.stat().st_size - 8192))


@pytest.mark.parametrize("taken", [("",), ("-wal", "-shm", "")])
async def test_a_damaged_partition_may_be_taken_away_while_others_have_it_open(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path, taken: tuple[str, ...]
) -> None:
    one, other = pair
    sound = message(DAY)
    await one.write([message(), sound])
    await other.write([message(1)])
    assert await search_all(other, Selection()) == [sound.id, message(1).id, message().id]
    path = tmp_path / "traces-20261121-30d.db"
    damage(path)
    third = await SqliteStore.open(tmp_path)
    with pytest.raises(StoreError, match="damaged") as caught:
        await third.write([message(2)])
    assert "traces-20261121-30d" in str(caught.value.hint)
    (tmp_path / "away").mkdir()
    for suffix in taken:
        (tmp_path / f"{path.name}{suffix}").rename(tmp_path / "away" / f"{path.name}{suffix}")
    for number, store in enumerate((one, third, other, one), 3):
        await store.write([message(number)])
    for store in (one, other, third):
        assert await search_all(store, Selection()) == [sound.id, *(message(number).id for number in (6, 5, 4, 3))]
        assert await store.message(sound.id) == sound
        assert await store.trace(message().id) is None
    await third.close()
    with apsw.Connection(str(path)) as tool:
        assert tool.pragma("integrity_check") == "ok"


async def test_what_another_wrote_last_counts_for_expiry(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = pair
    await one.write([done()])
    await other.write([message(1, retention_days=1, expected=(), received_at=LATE)])
    assert await one.expire(LATE) == ([], [])
    await other.write([message(2, retention_days=1)])
    assert await one.expire(LATE + 2 * DAY) == ([], ["20261121-1d"])


async def test_a_write_that_waits_for_a_drop_goes_to_a_new_file(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    one, other = pair
    await one.write([done()])
    await other.write([done()])
    results = await asyncio.gather(
        *(store.expire(LATE) for store in pair for _ in range(3)),
        *(store.write([message(number, retention_days=1)]) for number, store in enumerate(pair, 1)),
    )
    assert [name for dropped, _ in results[:6] for name in dropped] in (["20261121-1d"], [])
    for number in (1, 2):
        assert await one.message(message(number, retention_days=1).id) is not None


async def test_rows_that_another_made_are_known(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = pair
    sent = [message(number) for number in range(3)]
    assert await other.due(0) == {}
    await one.write([outcome(each, "billing", Status.RETRYING) for each in sent])
    assert await other.due(0) == {LANE: 3}
    (first,) = await other.lease(LATE, LATE + 1, {LANE: 1}, 9)
    await one.unlease([first])
    assert len(await one.lease(LATE, LATE + 1, {LANE: 9}, 9)) == 3
    await other.write([outcome(each, "billing", Status.DELIVERED, 2) for each in sent])
    assert await one.due(0) == {}
    assert await one.next_due() is None


async def test_the_turn_among_subscriptions_goes_on_where_another_left_it(
    pair: tuple[SqliteStore, SqliteStore],
) -> None:
    names = ["a", "b", "c"]
    await pair[0].compensate([row(message(number), name) for number in range(3) for name in names])
    room = {(DESTINATION, name): 9 for name in names}
    served = [(await pair[turn % 2].lease(LATE, LATE + 1, room, 1))[0].subscription for turn in range(9)]
    assert served == names * 3


async def test_sqlites_own_lock_is_waited_for_and_reported(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person has a transaction open in another tool."""
    store = pair[0]
    await store.write([message()])
    for file, call in (
        ("traces-20261121-30d.db", lambda: store.write([message(1)])),
        ("control.db", lambda: store.put("c", "k", b"")),
    ):
        tool = apsw.Connection(str(tmp_path / file))
        tool.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(connection, "PATIENCE", 0.2)
        begin = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            await asyncio.wait_for(call(), AT_ONCE)
        assert time.monotonic() - begin >= connection.PATIENCE
        assert await store.message(message().id) is not None
        monkeypatch.setattr(connection, "PATIENCE", LONG)
        waiting = asyncio.create_task(call())
        async with asyncio.timeout(AT_ONCE):
            for _ in range(20):
                await asyncio.sleep(0.002)
            assert not waiting.done()
            tool.execute("ROLLBACK")
            await waiting
        tool.close()
    assert await store.message(message(1).id) is not None


async def test_a_file_is_not_opened_while_another_process_opens_or_drops_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(tmp_path)
    monkeypatch.setattr(locking, "PATIENCE", 0.1)
    with locking.alone(tmp_path / "locks" / "files.lock"):
        with pytest.raises(StoreUnavailable, match="files lock"):
            await asyncio.wait_for(store.write([message()]), AT_ONCE)
        with pytest.raises(StoreUnavailable, match="files lock"):
            await asyncio.wait_for(SqliteStore.open(tmp_path), AT_ONCE)
    await store.write([message()])
    await store.close()


async def test_a_store_whose_files_were_taken_away_says_so(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await store.write([message()])
    await store.put("c", "k", b"")
    shutil.move(tmp_path / "store", tmp_path / "away")
    for call in (lambda: store.put("c", "k", b""), lambda: store.write([message(1)]), lambda: store.expire(LATE)):
        with pytest.raises(StoreUnavailable):
            await call()
    other = await SqliteStore.open(tmp_path / "store")
    with pytest.raises(StoreUnavailable, match=r"control\.db was removed or replaced"):
        await store.put("c", "k", b"")
    await other.close()
    await store.close()


def test_partitions_are_listed_as_they_come_and_go(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    labels = [Label(day_number(id_key(message().id)) + n, 1 + n % 2) for n in range(5)]
    for count, label in enumerate(labels, 1):
        assert len(directory.labels()) == count - 1
        (tmp_path / label.file).touch()
        assert directory.labels() == frozenset(labels[:count])
    (tmp_path / "traces-20261121-1d.db-wal").touch()
    (tmp_path / "notes").touch()
    assert directory.labels() == frozenset(labels)
    for label in labels:
        (tmp_path / label.file).unlink()
        assert label not in directory.labels()


async def test_a_file_of_an_older_version_is_brought_up(tmp_path: Path) -> None:
    """Rows that were there are counted."""
    writer = open_writer(tmp_path / "control.db", control_sql.STEPS[:1])
    writer.execute("INSERT INTO lane VALUES (1, ?, ?)", LANE)
    writer.execute(
        "INSERT INTO compensation (message_id, lane, due_at, generation, attempts, lease_until, epoch, rest) "
        "VALUES (x'00', 1, 5, 0, 0, 0, 0, x'')"
    )
    writer.close()
    store = await SqliteStore.open(tmp_path)
    assert await store.due(0) == {LANE: 1}
    assert await store.next_due() == 5
    await store.close()


def test_every_setting_of_a_connection_is_in_force(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "x.db", ("CREATE TABLE t (a)",))
    reader = open_reader(tmp_path / "x.db")
    found = [writer.pragma(name) for name in ("page_size", "journal_mode", "synchronous", "journal_size_limit")]
    assert found == [8192, "wal", 2, 64 * 1_048_576]
    assert reader.pragma("query_only")
    reader.close()
    writer.close()
