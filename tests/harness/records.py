"""Records of a test subscriber: durable ones of calls, or cheap figures in memory."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

TAIL_BYTES = 65_536


class Call(msgspec.Struct, kw_only=True):
    """One message of a call that was answered; ``t`` is when it arrived, in seconds since the epoch.

    Of a batch ``status`` is 0 for a message that was listed as failed, and ``batch`` is the call's ``webhook-id``.
    """

    t: float
    path: str
    id: str
    sha256: str
    status: int
    attempt: int
    destination: str
    bytes: int
    in_flight: int
    key: str = ""
    biz_id: str = ""
    content_type: str = ""
    seq: int | None = None
    signature: bool | None = None
    batch: str = ""
    epoch: int = 0


_decoder = msgspec.json.Decoder(Call)


def read_calls(path: Path) -> list[Call]:
    """Return the whole records of a file; a torn last line belongs to a call that was never answered."""
    return list(_whole_lines(path)) if path.exists() else []


def _whole_lines(path: Path) -> Iterator[Call]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _decoder.decode(line)


def _drop_torn_line(file: int) -> None:
    """Cut what a killed run left after the last line end."""
    size = os.fstat(file).st_size
    tail = os.pread(file, TAIL_BYTES, max(0, size - TAIL_BYTES))
    os.ftruncate(file, size - len(tail) + tail.rfind(b"\n") + 1)


class Recorder:
    """Appends records to a file and calls back when they are written, with fsync if asked; callers share one."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _drop_torn_line(self._file)
        self._fsync = fsync
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []
        self._waiting: list[Callable[[], None]] = []
        self._busy = False

    def add(self, calls: Iterable[Call], then: Callable[[], None]) -> None:
        """Write records soon, then call ``then``."""
        self._lines += map(self._encode, calls)
        self._waiting.append(then)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._flush)

    def close(self) -> None:
        """Write what is left."""
        self._write(self._lines)
        os.close(self._file)

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        waiting, self._waiting = self._waiting, []
        if not self._fsync:
            self._write(lines)
            self._written(waiting)
            return
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(None, self._write, lines)
        done.add_done_callback(lambda future: self._written(waiting) if future.exception() is None else loop.stop())

    def _write(self, lines: list[bytes]) -> None:
        if lines:
            os.write(self._file, b"\n".join(lines) + b"\n")
        if self._fsync:
            os.fdatasync(self._file)

    def _written(self, waiting: list[Callable[[], None]]) -> None:
        for then in waiting:
            then()
        self._busy = bool(self._lines)
        if self._busy:
            asyncio.get_running_loop().call_soon(self._flush)


class Tally:
    """Sequence numbers and arrival times (monotonic seconds, one clock for all processes) of one path."""

    def __init__(self) -> None:
        self.seqs = array("q")
        self.times = array("d")

    def dump(self) -> bytes:
        """Return all sequence numbers, then all times, as machine words."""
        return self.seqs.tobytes() + self.times.tobytes()


def load_tally(dump: bytes) -> tuple[array[int], array[float]]:
    """Undo ``Tally.dump``."""
    seqs, times = array("q"), array("d")
    half = len(dump) // 2
    seqs.frombytes(dump[:half])
    times.frombytes(dump[half:])
    return seqs, times
