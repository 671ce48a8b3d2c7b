"""Files of trace events: whole lines only, rotated, bounded, and never at the cost of the disk's reserve."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bus.domain.identity import new_id
from bus.errors import EventsUnavailable
from bus.events.files import CLOSED, OPEN, ROTATE_SECONDS, EventFiles, Limits
from bus.ports.events import SealedBlock

NOW = 1_732_240_000_123
EVENT = {"stage": "sent", "at": NOW, "id": new_id(NOW), "destination": "a"}


def block(number: int, size: int = 0) -> SealedBlock:
    line = json.dumps({"seq": number, "events": [EVENT, EVENT], "pad": "x" * size}).encode()
    return SealedBlock("emitter", line, {"sent": 2})


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 0.0
        self.removed: list[int] = []
        self.torn: list[int] = []

    def files(self, emitter: str = "emitter", **limits: float) -> EventFiles:
        chosen = Limits(**{"total": 2**30, "reserve": 0} | limits)  # type: ignore[arg-type]
        return EventFiles(
            self.directory, emitter, chosen, lambda: self.time, removed=self.removed.append, torn=self.torn.append
        )

    def names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.directory.glob(f"*{suffix}"))

    def seqs(self) -> list[int]:
        paths = sorted(self.directory.glob(f"*{CLOSED}"))
        return [json.loads(line)["seq"] for path in paths for line in path.read_bytes().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "events")


def test_nothing_is_made_before_there_is_something_to_write(world: World) -> None:
    files = world.files()
    files.tend()
    files.rotate()
    assert not world.directory.exists()


def test_a_file_is_seen_by_readers_once_it_is_closed(world: World) -> None:
    files = world.files()
    files.write([block(1), block(2)])
    assert world.names(OPEN) == ["emitter-000001.open"]
    world.time = ROTATE_SECONDS - 0.1
    files.tend()
    assert world.names(CLOSED) == []
    files.write([block(3)])
    world.time = ROTATE_SECONDS
    files.tend()
    assert world.names(OPEN) == []
    assert world.seqs() == [1, 2, 3]
    files.write([block(4)])
    files.rotate()
    assert world.names(CLOSED) == ["emitter-000001.jsonl", "emitter-000002.jsonl"]


def test_a_file_is_closed_before_it_grows_too_large(world: World) -> None:
    files = world.files(rotate_bytes=1000)
    for number in range(5):
        files.write([block(number, 300)])
    files.rotate()
    sizes = [path.stat().st_size for path in world.directory.iterdir()]
    assert max(sizes) <= 1000
    assert world.seqs() == [0, 1, 2, 3, 4]


def test_the_oldest_closed_files_go_first_and_are_counted(world: World) -> None:
    files = world.files(total=2000, rotate_bytes=1000)
    for number in range(10):
        files.write([block(number, 600)])
        files.rotate()
        for age, path in enumerate(sorted(world.directory.iterdir(), reverse=True)):
            os.utime(path, (1000 - age, 1000 - age))
        files.tend()
    assert world.seqs() == [8, 9]
    assert sum(world.removed) == 2 * 8


def test_below_the_reserve_nothing_is_written(world: World, tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    files = world.files(reserve=2 * free)
    with pytest.raises(EventsUnavailable, match="kept for outcomes"):
        files.write([block(1)])
    assert world.names("") == [] or not any(world.directory.iterdir())


def test_a_full_disk_leaves_whole_lines_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    files = world.files()
    files.write([block(1)])
    whole = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) > 20:
            return whole(descriptor, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EventsUnavailable, match="No space left"):
        files.write([block(2)])
    monkeypatch.setattr(os, "write", whole)
    files.write([block(3)])
    files.rotate()
    assert world.seqs() == [1, 3]


def test_what_could_not_be_taken_back_is_taken_back_before_the_next_lines(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = world.files()
    files.write([block(1)])
    whole, cut = os.write, os.ftruncate

    def failing(descriptor: int, data: memoryview) -> int:
        whole(descriptor, data[:20])
        raise OSError(errno.EIO, "I/O error")

    def stuck(_descriptor: int, _size: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "write", failing)
    monkeypatch.setattr(os, "ftruncate", stuck)
    with pytest.raises(EventsUnavailable):
        files.write([block(2)])
    monkeypatch.setattr(os, "write", whole)
    with pytest.raises(EventsUnavailable):
        files.write([block(2)])
    monkeypatch.setattr(os, "ftruncate", cut)
    files.write([block(2)])
    files.rotate()
    assert world.seqs() == [1, 2]


class Torn(NamedTuple):
    """What a dead process left, the lines of it that are whole, and how many were cut off."""

    content: bytes
    seqs: list[int]
    torn: int


LINES = block(1).line + b"\n" + block(2).line + b"\n"
CASES = {
    "whole": Torn(LINES, [1, 2], 0),
    "cut off": Torn(LINES + block(3).line[:40], [1, 2], 1),
    "cut off and long": Torn(LINES + b"x" * 200_000, [1, 2], 1),
    "nothing whole": Torn(b"x" * 70_000, [], 1),
    "empty": Torn(b"", [], 0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_dead_process_left_is_closed_with_its_whole_lines(world: World, case: Torn) -> None:
    world.directory.mkdir()
    (world.directory / f"dead-000001{OPEN}").write_bytes(case.content)
    world.files().tend()
    assert world.seqs() == case.seqs
    assert world.torn == [1] * case.torn
    assert world.names(OPEN) == []


def test_what_a_live_process_writes_is_left_alone(world: World) -> None:
    live = world.files("live")
    live.write([block(1)])
    world.files("other").tend()
    assert world.names(OPEN) == ["live-000001.open"]
    live.write([block(2)])
    live.rotate()
    assert world.seqs() == [1, 2]


HOLD = """
import os, sys, time
from pathlib import Path
from bus.events.files import EventFiles, Limits
from bus.ports.events import SealedBlock

files = EventFiles(Path(sys.argv[1]), "parent", Limits(2**30, 0), lambda: 0.0, removed=print, torn=print)
files.write([SealedBlock("parent", b'{"seq":1,"events":[]}', {})])
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
sys.stdin.readline()
os._exit(9)
"""


def test_a_child_does_not_keep_the_file_of_its_dead_parent(world: World) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, world.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        world.files("other").tend()
        assert world.names(OPEN) == ["parent-000001.open"]
        child.stdin.write("end\n")
        child.stdin.flush()
        child.wait(30)
        os.kill(grandchild, 0)  # it lives
        world.files("another").tend()
        assert world.seqs() == [1]
        os.kill(grandchild, signal.SIGKILL)


def test_a_file_that_was_taken_for_a_leftover_is_not_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between making a file and locking it, another process may find it unlocked and empty."""
    opened: Callable[..., int] = os.open

    def unlucky(path: Path, flags: int, *mode: int) -> int:
        descriptor = opened(path, flags, *mode)
        if flags & os.O_CREAT:
            Path(path).unlink()
        return descriptor

    files = world.files()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", unlucky)
        with pytest.raises(EventsUnavailable):
            files.write([block(1)])
    files.write([block(1)])
    files.rotate()
    assert world.seqs() == [1]
