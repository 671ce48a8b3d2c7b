"""Groups of failures in SQLite's files: bounded in time, and there also in files that an older version made."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.stores.sqlite import SqliteStore
from bus.stores.sqlite.connection import open_writer
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.partitions import trace_sql
from bus.testing.writes import NOON, message, outcome


async def test_when_time_is_up_whole_days_are_missing_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.stores.sqlite.failing.PATIENCE", -1)
    store = await SqliteStore.open(tmp_path)
    for day in range(3):
        for retention in (7, 30):
            one = message(day * DAY, retention_days=retention)
            await store.write([one, outcome(one, "billing", Status.DEAD, reason="HTTP 500")])
    found = await store.failures(Selection())
    assert [group.count for group in found.groups] == [2]
    assert found.since == (NOON + 2 * DAY) // DAY * DAY
    older = await store.failures(Selection(before=found.since))
    assert [group.count for group in older.groups] == [2]
    oldest = await store.failures(Selection(before=older.since))
    assert [group.count for group in oldest.groups] == [2]
    assert oldest.since is None
    await store.close()


async def test_a_file_of_the_first_version_goes_on(tmp_path: Path) -> None:
    one = message()
    path = tmp_path / Label(NOON // DAY, one.retention_days).file
    open_writer(path, trace_sql.STEPS[:1]).close()
    store = await SqliteStore.open(tmp_path)
    await store.write([one, outcome(one, "billing", Status.DEAD, reason="HTTP 500")])
    assert [group.signature for group in (await store.failures(Selection())).groups] == ["HTTP 500"]
    await store.close()


async def test_how_it_fails_is_known_after_a_restart(tmp_path: Path) -> None:
    one = message()
    store = await SqliteStore.open(tmp_path)
    await store.write([one, outcome(one, "billing", Status.RETRYING, reason="HTTP 500")])
    await store.close()
    store = await SqliteStore.open(tmp_path)
    await store.write([outcome(one, "billing", Status.RETRYING, 2, reason="HTTP 503")])
    assert [group.signature for group in (await store.failures(Selection())).groups] == ["HTTP 503"]
    await store.write([outcome(one, "billing", Status.DELIVERED, 3)])
    assert (await store.failures(Selection())).groups == []
    await store.close()
