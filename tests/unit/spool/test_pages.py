"""SQLite's pages read without SQLite give what SQLite wrote."""

from __future__ import annotations

from pathlib import Path
from random import Random

from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool, Options
from bus.spool.file import PAGE_SIZE, CursorRow, LaneRow, SpoolFile, TallyRow
from bus.spool.recovery.pages import frames, page_of, rows, wal_salt

SIZES = [0, 1, 100, 1000, 4000, 4040, 4061, 4062, 4100, 8000, 50_000]


def all_rows(path: Path) -> list:
    with path.open("rb") as file:
        count = path.stat().st_size // PAGE_SIZE
        return [
            row
            for number in range(1, count + 1)
            for row in rows(page_of(file, number), lambda link: page_of(file, link), first=number == 1)
        ]


def test_every_row_is_found(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path, Options(consumers=("send", "store"))) as spool:
        new = [NewRecord(f"lane-{number % 3}", bytes([number]) * size, number) for number, size in enumerate(SIZES)]
        positions = spool.append(new)
        for _ in range(400):
            spool.append([NewRecord("lane-0", b"held", 1)])
        held = spool.claim("store", 399, "lane-0")[::2]
        spool.release("store", [])
        spool.ack("store", held)
    found = all_rows(tmp_path / "spool.db")
    records = {row[0]: row for row in found if not isinstance(row, (LaneRow, TallyRow, CursorRow))}
    assert [records[position][3] for position in positions] == [record.payload for record in new]
    file = SpoolFile(tmp_path / "spool.db")
    contents = file.load()
    file.close()
    assert {row for row in found if isinstance(row, LaneRow)} == set(contents.lanes)
    assert {row for row in found if isinstance(row, TallyRow)} == set(contents.tallies)
    cursors = {(row.lane, row.consumer): row for row in found if isinstance(row, CursorRow)}
    assert cursors == {(row.lane, row.consumer): row for row in contents.cursors}
    assert max(len(row.holes) for row in contents.cursors) > 150, "no overflow page was tested"


def test_frames_of_the_log(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append([NewRecord("a", b"one", 1)])
    spool.append([NewRecord("a", b"two", 1)])
    path = tmp_path / "spool.db-wal"
    found = [frame for frame in frames(path) if frame.salt == wal_salt(path)]
    spool._engine.crash()
    assert sum(frame.commit for frame in found) >= 2
    payloads = [row[3] for frame in found for row in rows(frame.data, lambda _: b"") if type(row) is tuple]
    assert payloads[-2:] == [b"one", b"two"]
    data = path.read_bytes()
    path.write_bytes(bytes(32) + data[32:])
    assert wal_salt(path) == found[0].salt
    assert list(frames(tmp_path / "none")) == []


def test_noise_is_no_page() -> None:
    random = Random(7)
    for number in range(500):
        noise = bytearray(random.randbytes(PAGE_SIZE))
        noise[0] = random.choice([0x0D, 0x0A])
        if number % 2:
            noise[3:5] = b"\x00\xff"
        assert list(rows(bytes(noise), lambda _: bytes(noise))) == []  # noqa: B023
    assert list(rows(b"", lambda _: b"")) == []
