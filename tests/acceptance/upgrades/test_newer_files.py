"""A bus that finds files of a newer one does not start, says which file it is, and leaves all as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from bus.bootstrap.data_format import FORMAT, NAME, format_of, note_format, refuse_newer
from bus.errors import ConfigurationError
from bus.settings import load_settings
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a bus that delivered a message and was stopped."""
    folder = tmp_path_factory.mktemp("left")
    with SubscriberProcess(folder) as subscriber, BusProcess(folder / "data") as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
        bus.admin.wait_drained("orders", [bus.admin.send("orders", b"{}").json()["id"]], within=30)
        assert bus.stop() == 0
    return folder / "data"


@pytest.fixture
def data(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left, tmp_path / "data"))


def newer_database(name: str) -> Callable[[Path], Path]:
    def make(data: Path) -> Path:
        (path,) = data.glob(name)
        with apsw.Connection(str(path)) as connection:
            connection.pragma("user_version", 90)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()
        return path

    return make


def newer_directory(data: Path) -> Path:
    (data / NAME).write_text(f'{{"format":{FORMAT + 1},"version":"9.0.0"}}')
    return data / NAME


NEWER = {
    "journal": newer_database("journal/spool.db"),
    "control": newer_database("store/control.db"),
    "day": newer_database("store/traces-*.db"),
    "directory": newer_directory,
}


def contents(data: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(data)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in data.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("what", NEWER)
def test_files_of_a_newer_bus_stop_the_start_and_are_left_alone(data: Path, what: str) -> None:
    path = NEWER[what](data)
    before = contents(data)
    done = run_bus("up", "--data", data, "--port", "0")
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert "newer bus" in done.stderr
    assert "nothing was changed" in done.stderr
    done = run_bus("key", "create", "--data", data)
    assert done.returncode == 1
    assert contents(data) == before


def test_a_directory_says_which_bus_worked_on_it(data: Path, tmp_path: Path) -> None:
    found = format_of(data / NAME)
    assert found is not None
    assert (found.format, found.is_newer) == (FORMAT, False)
    note_format(data, "0.2.0")
    assert b"0.2.0" in (data / NAME).read_bytes()
    for harm in (b"", b"{", b'{"format":"x"}'):
        (data / NAME).write_bytes(harm)
        refuse_newer(load_settings(None, {"data": data}))
    refuse_newer(load_settings(None, {"data": tmp_path / "new"}))
    assert not (tmp_path / "new").exists()


def test_a_store_elsewhere_is_looked_at(data: Path, tmp_path: Path) -> None:
    newer_database("store/control.db")(data)
    settings = load_settings(None, {"data": tmp_path / "new", "store": f"sqlite:///{data}/store"})
    with pytest.raises(ConfigurationError, match="format 90"):
        refuse_newer(settings)


def test_what_damage_made_of_a_spools_format_is_no_newer_bus(data: Path) -> None:
    path = data / "journal" / "spool.db"
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\x7f\x00\x00\x00" + content[64:])
    refuse_newer(load_settings(None, {"data": data}))
