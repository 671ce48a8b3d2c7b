"""Backups that are cut off, damaged, of a newer bus, or for a place that is taken; and restores of the same kind."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from bus.backups import BackupResult, restore, take
from bus.backups import restoring as restoring_module
from bus.backups.manifest import NAME, find_manifest
from bus.bootstrap.restored import refuse_half_restored, restored_from
from bus.clock import SystemClock
from bus.domain.times import DAY
from bus.errors import BackupError, ConfigurationError
from bus.settings import load_settings
from bus.spool.inspect import Inspection, spools
from bus.stores.sqlite import SqliteStore
from bus.testing.writes import message
from tests.harness.bus_process import BusProcess, bus_command
from tests.harness.loop_disk import MIB, loop_disk
from tests.harness.process import ROOT
from tests.harness.subscribers import SubscriberProcess

MESSAGES = 60
WORKER = Path(__file__).with_name("backup_worker.py")


def begin(_what: str, _size: int) -> Callable[[int], None]:
    return lambda _: None


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what a bus that was killed left: half of its messages wait for a paused subscription."""
    folder = tmp_path_factory.mktemp("killed")
    with SubscriberProcess(folder) as subscriber, BusProcess(folder / "data") as bus:
        for code in ("held", "gone"):
            bus.admin.destination(code)
            bus.admin.subscription(code, "shop", subscriber.url(f"/{code}"), paused=code == "held")
        sent = [bus.admin.send(("held", "gone")[n % 2], b"{}").json()["id"] for n in range(MESSAGES)]
        bus.admin.wait_drained("gone", sent[1::2], within=30)
        bus.kill()
    return folder / "data"


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def taken(data: Path, directory: Path, **options: bool) -> BackupResult:
    return take(load_settings(None, {"data": data}), directory, SystemClock(), begin, **options)


def put_back(directory: Path, data: Path) -> restoring_module.RestoreResult:
    return restore(directory, load_settings(None, {"data": data}), SystemClock(), begin)


def waiting(data: Path) -> int:
    """Return how many records wait in all spools."""
    found = 0
    for path in spools(data):
        with Inspection(path) as inspection:
            found += sum(each.records for each in inspection.overview().consumers)
    return found


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def work(what: str, number: int, directory: Path, data: Path) -> int:
    """Do it in a process that is killed at its n-th sync; return its exit code."""
    argv = [sys.executable, str(WORKER), what, str(number), str(directory), str(data)]
    return subprocess.run(argv, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False, timeout=60).returncode


def test_a_backup_has_all_that_was_there_and_restores_to_the_same(data: Path, tmp_path: Path) -> None:
    held = waiting(data)
    found = taken(data, tmp_path / "backup").manifest
    assert found.store == "sqlite"
    assert found.count("spool") == len(spools(data))
    assert found.records("store") >= MESSAGES // 2
    put_back(tmp_path / "backup", tmp_path / "new")
    assert waiting(tmp_path / "new") == held > 0
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "backup").rglob("*")} == {0}
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").rglob("*")} == {0}


def test_a_further_run_copies_only_what_has_changed(data: Path, tmp_path: Path) -> None:
    for path in data.rglob("*.db*"):
        # As if it had rested for a while: a file that was written just now may be written again unseen.
        _age(path)
    first = taken(data, tmp_path / "backup")
    again = taken(data, tmp_path / "backup")
    dbs = first.manifest.count("spool") + first.manifest.count("store")
    assert (first.kept, again.kept) == (0, dbs)
    connection = apsw.Connection(str(data / "store" / "control.db"))
    connection.execute("INSERT INTO document VALUES ('notes', 'a', 1, x'00')")
    connection.close()
    changed = taken(data, tmp_path / "backup")
    assert changed.kept == dbs - 1
    assert {part.file for part in changed.manifest.parts} == {
        f"files/{path.name}" for path in (tmp_path / "backup" / "files").iterdir()
    }


def _age(path: Path) -> None:
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - 10**10))


@pytest.mark.parametrize("step", [pytest.param(9, id="some"), pytest.param(1, id="every", marks=pytest.mark.proof)])
def test_a_backup_that_is_killed_counts_for_nothing_and_is_gone_on_with(data: Path, tmp_path: Path, step: int) -> None:
    number, code = step, -1
    while code:
        backup = tmp_path / f"backup-{number}"
        code = work("backup", number, backup, data)
        assert code in (0, -signal.SIGKILL)
        if code and find_manifest(backup) is None:
            with pytest.raises(BackupError, match="no whole backup"):
                put_back(backup, tmp_path / "new")
            assert not (tmp_path / "new").exists()
        taken(data, backup)
        assert waiting_in(backup, tmp_path / f"new-{number}") == waiting(data)
        number += step


def waiting_in(backup: Path, target: Path) -> int:
    put_back(backup, target)
    return waiting(target)


@pytest.mark.parametrize("step", [pytest.param(9, id="some"), pytest.param(1, id="every", marks=pytest.mark.proof)])
def test_a_kill_leaves_the_backup_before_whole(data: Path, tmp_path: Path, step: int) -> None:
    before = taken(data, tmp_path / "backup").manifest
    number, code = step, -1
    while code:
        directory = Path(shutil.copytree(tmp_path / "backup", tmp_path / f"backup-{number}"))
        code = work("backup", number, directory, data)
        found = put_back(directory, tmp_path / f"new-{number}").manifest
        assert (found.id == before.id) or not code or find_manifest(directory) == found
        number += step


@pytest.mark.parametrize("step", [pytest.param(7, id="some"), pytest.param(1, id="every", marks=pytest.mark.proof)])
def test_a_restore_that_is_killed_starts_no_bus_and_is_gone_on_with(data: Path, tmp_path: Path, step: int) -> None:
    backup = tmp_path / "backup"
    taken(data, backup)
    number, code = step, -1
    while code:
        target = tmp_path / f"new-{number}"
        code = work("restore", number, backup, target)
        assert code in (0, -signal.SIGKILL)
        is_begun = restored_from(target) is not None
        if is_begun:
            with pytest.raises(ConfigurationError, match="is not complete"):
                refuse_half_restored(target)
        if is_begun or not spools(target):  # else it was killed when all was done
            put_back(backup, target)
        assert restored_from(target) is None
        assert waiting(target) == waiting(data)
        number += step


def test_a_damaged_file_is_named_and_nothing_is_restored(data: Path, tmp_path: Path) -> None:
    manifest = taken(data, tmp_path / "backup").manifest
    for part in manifest.parts:
        path = tmp_path / "backup" / part.file
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(BackupError, match="is damaged") as raised:
            put_back(tmp_path / "backup", tmp_path / "new")
        assert str(path) in str(raised.value)
        path.unlink()
        with pytest.raises(BackupError, match="is missing"):
            put_back(tmp_path / "backup", tmp_path / "new")
        path.write_bytes(whole)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("harm", ["flipped", "cut", "newer"])
def test_a_manifest_that_is_not_as_it_was_written_is_refused(data: Path, tmp_path: Path, harm: str) -> None:
    taken(data, tmp_path / "backup")
    path = tmp_path / "backup" / NAME
    content = path.read_bytes()
    if harm == "newer":
        inner = content[content.index(b'"backup":') + 9 : content.rindex(b"}")].replace(b'"format":1', b'"format":2')
        content = b'{"sha256":"%b","backup":%b}' % (hashlib.sha256(inner).hexdigest().encode(), inner)
    path.write_bytes({"flipped": content.replace(b"sqlite", b"sqlitf"), "cut": content[:-9], "newer": content}[harm])
    with pytest.raises(BackupError, match="format 2" if harm == "newer" else "is damaged"):
        put_back(tmp_path / "backup", tmp_path / "new")
    with pytest.raises(BackupError, match="format 2" if harm == "newer" else "is damaged"):
        taken(data, tmp_path / "backup")
    assert not (tmp_path / "new").exists()


def test_files_of_a_newer_bus_are_not_restored(data: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(data / "store" / "control.db"))
    connection.pragma("user_version", 99)
    connection.close()
    taken(data, tmp_path / "backup")
    with pytest.raises(BackupError, match="format 99"):
        put_back(tmp_path / "backup", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_data_directory_of_a_newer_bus_is_not_restored(data: Path, tmp_path: Path) -> None:
    (data / "format.json").write_text('{"format":99,"version":"9.0.0"}')
    taken(data, tmp_path / "backup")
    with pytest.raises(BackupError, match="format 99"):
        put_back(tmp_path / "backup", tmp_path / "new")
    assert not (tmp_path / "new").exists()


async def write_days(directory: Path, days: int) -> None:
    store = await SqliteStore.open(directory)
    for day in range(days):
        await store.write([message(day * DAY)])
    await store.close()


def test_a_store_of_many_days_is_copied_whatever_a_shell_lets_open(tmp_path: Path) -> None:
    days = 40
    asyncio.run(write_days(tmp_path / "data" / "store", days))
    argv = bus_command("backup", tmp_path / "backup", "--data", tmp_path / "data", "--json")
    limited = ["prlimit", f"--nofile={2 * days}:4096", *argv]
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(limited, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == days


def test_no_place_that_holds_something_is_written_to(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "backup")
    before = files(data)
    with pytest.raises(BackupError, match="not an empty directory"):
        put_back(tmp_path / "backup", data)
    with pytest.raises(BackupError, match="no backup"):
        taken(data, ROOT / "docs")
    with pytest.raises(BackupError, match="is inside"):
        taken(data, data / "backup")
    with pytest.raises(BackupError, match="is not there"):
        taken(tmp_path / "nowhere", tmp_path / "other")
    assert files(data) == before


def test_two_restores_do_not_mix(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken(data, tmp_path / "one")
    taken(data, tmp_path / "two")

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(restoring_module, "_put", fails)
        with pytest.raises(BackupError, match="no space left") as raised:
            put_back(tmp_path / "one", tmp_path / "new")
    assert "run the same command again" in raised.value.hint
    with pytest.raises(BackupError, match="another backup"):
        put_back(tmp_path / "two", tmp_path / "new")
    put_back(tmp_path / "one", tmp_path / "new")
    assert waiting(tmp_path / "new") == waiting(data)


def test_secrets_of_the_settings_are_left_out_unless_they_are_asked_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_SECRET_KEY", "S3CRET" * 8)
    monkeypatch.setenv("BUS_RABBITMQ_PRIMARY", "amqp://ann:S3CRET@rabbit:5672/bus")
    monkeypatch.setenv("BUS_RABBITMQ_GROUPS", json.dumps({"east": "amqp://ann:S3CRET@a:1,b:1,c:1/bus"}))
    monkeypatch.setenv("BUS_SPOOL_LIMIT", str(2**30))
    for with_secrets in (False, True):
        manifest = taken(data, tmp_path / "backup", with_secrets=with_secrets).manifest
        (part,) = [part for part in manifest.parts if part.kind == "settings"]
        content = (tmp_path / "backup" / part.file).read_text()
        found = tomllib.loads(content)
        assert found["spool_limit"] == 2**30
        assert ("S3CRET" in content) == with_secrets
        assert ("secret_key" in found) == with_secrets
        assert found["rabbitmq_groups"]["east"].startswith("amqp://ann:")
        assert "secret_key" in content


def test_a_full_disk_is_told_and_the_backup_goes_on_when_there_is_room(data: Path, tmp_path: Path) -> None:
    with loop_disk(tmp_path, 24 * MIB) as disk:
        backup = disk.path / "sub" / "backup"
        backup.mkdir(parents=True)
        disk.fill(leave=200 * 1024)
        with pytest.raises(BackupError, match="not whole") as raised:
            taken(data, backup)
        assert "free space" in raised.value.hint
        assert find_manifest(backup) is None
        disk.empty()
        taken(data, backup)
        disk.fill(leave=200 * 1024)
        new = disk.path / "sub" / "new"
        with pytest.raises(BackupError, match="is not restored"):
            put_back(backup, new)
        disk.empty()
        put_back(backup, new)
        assert waiting(new) == waiting(data)
