"""Bytes that flip, vanish or turn to zero: what can be verified is returned, the rest counted, nothing made up."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest

from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool, Options
from bus.spool.file import PAGE_SIZE
from bus.spool.recovery.salvage import EVIDENCE
from tests.integration.spool.history import History, body, drain, number_of, record

RECORDS = 90
SIZES = [10, 100, 700, 6000]


def fill(spool: BlockingSpool, history: History, numbers: range) -> None:
    for number in numbers:
        history.add("try", [number])
        spool.append([record(number, SIZES[number % len(SIZES)])])
        history.add("ok", [number])
        if number % 7 == 3:
            found = spool.claim("send", 2, "abc"[number % 3])
            history.add("ack", [number_of(item.payload) for item in found])
            spool.ack("send", found)
            spool.settle()
            history.add("settled", [])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    """A spool closed in order: everything is in spool.db."""
    directory = tmp_path_factory.mktemp("closed")
    history = History()
    with BlockingSpool(directory) as spool:
        fill(spool, history, range(RECORDS))
    return directory, history


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    """A spool that was killed: half of it is in spool.db, half in the log."""
    directory = tmp_path_factory.mktemp("killed")
    history = History()
    with BlockingSpool(directory) as spool:
        fill(spool, history, range(RECORDS // 2))
    spool = BlockingSpool(directory)
    fill(spool, history, range(RECORDS // 2, RECORDS))
    spool._engine.crash()
    return directory, history


def flip(data: bytes, place: int, random: Random) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]


def zero(data: bytes, place: int, random: Random) -> bytes:
    size = random.choice([16, 512, 4096])
    start = place - place % size
    return data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]


def noise(data: bytes, place: int, random: Random) -> bytes:
    size = min(random.choice([16, 512, 4096]), len(data) - place)
    return data[:place] + random.randbytes(size) + data[place + size :]


def truncate(data: bytes, place: int, random: Random) -> bytes:
    return data[:place]


def variants(tmp_path: Path, source: Path, name: str, step: int, kinds: list[Callable[..., bytes]]) -> Iterator[Path]:
    """Yield copies of a spool, each with one file damaged at another place in another way."""
    random = Random(step)
    data = (source / name).read_bytes()
    for place, kind in zip(range(random.randrange(step), len(data), step), itertools.cycle(kinds)):
        directory = tmp_path / f"{kind.__name__}-{place}"
        shutil.copytree(source, directory)
        (directory / "spool.db-shm").unlink(missing_ok=True)
        (directory / name).write_bytes(kind(data, place, random))
        yield directory
        shutil.rmtree(directory)


def examine(directory: Path, history: History, *, exact: bool = True) -> tuple[set[int], int]:
    """Drain a damaged spool, and check what must hold for any damage; return what is lost, and what was counted."""
    with BlockingSpool(directory, Options(cache_bytes=0)) as spool:
        found = drain(spool)
        damaged = spool.stats().damaged
        assert spool.stats().records == 0, directory
        assert all(row.records == 0 for row in spool.stats().consumers), directory
        spool.append([record(10_000), record(10_001)])
    assert len(found) == len(set(found)), directory
    assert set(found) <= {number for call in history.tried for number in call}, directory
    if exact and not (directory / EVIDENCE).exists() and not damaged:
        assert not history.settled.intersection(found), directory
    with BlockingSpool(directory) as spool:
        assert sorted(drain(spool)) == [10_000, 10_001], directory
    return history.stored - history.acked - set(found), damaged


def check_file(tmp_path: Path, source: Path, history: History, step: int) -> None:
    lost_in_all = 0
    for directory in variants(tmp_path, source, "spool.db", step, [flip, zero, noise, truncate]):
        lost, damaged = examine(directory, history)
        assert not lost or damaged, (directory, lost, damaged)
        if directory.name.startswith("flip"):
            assert len(lost) <= min(damaged, 12), (directory, lost, damaged)
        lost_in_all += len(lost)
    assert lost_in_all, "the damage did not hit anything: the test tests nothing"


def check_log(tmp_path: Path, source: Path, history: History, step: int) -> None:
    """A log that was cut gives the state after an earlier commit, so what was acked later may return."""
    for directory in variants(tmp_path, source, "spool.db-wal", step, [flip, zero, noise, truncate]):
        lost, damaged = examine(directory, history, exact=False)
        order = [number for call in history.tried for number in call]
        prefix = not lost or not any(number > min(lost) for number in set(order) - lost - history.acked)
        assert prefix or damaged, (directory, lost, damaged)


@pytest.mark.timeout(300)
def test_damage_anywhere_in_the_file(tmp_path: Path, closed: tuple[Path, History]) -> None:
    check_file(tmp_path, *closed, step=1999)


@pytest.mark.timeout(300)
def test_damage_anywhere_in_the_log(tmp_path: Path, killed: tuple[Path, History]) -> None:
    check_log(tmp_path, *killed, step=10_007)


@pytest.mark.proof
def test_damage_anywhere_in_the_file_at_length(tmp_path: Path, closed: tuple[Path, History]) -> None:
    for step in (61, 67, 71):
        check_file(tmp_path, *closed, step=step)


@pytest.mark.proof
def test_damage_anywhere_in_the_log_at_length(tmp_path: Path, killed: tuple[Path, History]) -> None:
    for step in (2003, 2017):
        check_log(tmp_path, *killed, step=step)


def test_a_destroyed_header(tmp_path: Path, killed: tuple[Path, History]) -> None:
    source, history = killed
    for size in (1, 16, 100, 4096):
        directory = tmp_path / str(size)
        shutil.copytree(source, directory)
        data = (directory / "spool.db").read_bytes()
        (directory / "spool.db").write_bytes(bytes(size) + data[size:])
        lost, _ = examine(directory, history)
        assert lost == set()


def test_a_record_that_was_given_back_is_verified_again(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path, Options(cache_bytes=0)) as spool:
        spool.append([record(0), record(3)])
        held = spool.claim("send", 2, "a")
        spool.release("send", held)
        with closing(apsw.Connection(str(tmp_path / "spool.db"))) as db:
            db.execute("UPDATE record SET payload = ? WHERE position = ?", (body(6, 100), held[0].position))
        assert drain(spool) == [3]
        assert spool.stats().damaged == 1


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "spool.db").write_bytes(b"not a database at all " * 1000)
    with BlockingSpool(tmp_path) as spool:
        spool.append([record(1)])
        assert drain(spool) == [1]
    assert [path.name for path in (tmp_path / EVIDENCE).glob("*/spool.db")] == ["spool.db"]


def test_a_tree_that_leads_in_circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flipped child pointer can have SQLite come back to where it was."""
    with BlockingSpool(tmp_path) as spool:
        spool.append([NewRecord("a", body(number, 3000), 1) for number in range(50)])
    data = bytearray((tmp_path / "spool.db").read_bytes())
    interior = next(place for place in range(PAGE_SIZE, len(data), PAGE_SIZE) if data[place] == 5)
    (cell,) = struct.unpack_from(">H", data, interior + 12 + 2 * 9)
    (earlier,) = struct.unpack_from(">H", data, interior + 12 + 2 * 2)
    data[interior + cell : interior + cell + 4] = data[interior + earlier : interior + earlier + 4]
    (tmp_path / "spool.db").write_bytes(data)
    with BlockingSpool(tmp_path) as spool:
        assert sorted(drain(spool)) == list(range(50))
        assert spool.stats().damaged == 0


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "spool.db").touch()
    with BlockingSpool(tmp_path) as spool:
        spool.append([record(1)])
        assert drain(spool) == [1]
