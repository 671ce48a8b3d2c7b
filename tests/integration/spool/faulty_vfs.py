"""A SQLite VFS on real files that knows which writes were synced, and cuts the power.

A cut keeps what was synced; of the rest every 512-byte sector of every write is kept or dropped on its own, so
writes are lost, reordered and torn.
"""

# ruff: noqa: N802, ARG002 - the names and arguments are SQLite's

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw

SECTOR = 512


class PowerIsOff(apsw.IOError):
    """Any use after the cut."""


@dataclass
class Disk:
    """One file as the platter has it, and the writes that were not synced (None data: a truncation)."""

    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.pending:
            apply(self.durable, offset, data)
        self.pending.clear()

    def survivor(self, random: Random) -> bytes:
        """Return the file as it may be after a cut."""
        content = bytearray(self.durable)
        keep = random.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        for offset, data in self.pending:
            if data is None:
                if random.random() < keep:
                    apply(content, offset, None)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < keep:
                    apply(content, offset + start, data[start : start + SECTOR])
        return bytes(content)


def apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class FaultyVfs(apsw.VFS):
    """Register with a name; ``cut_at`` is the number of the write or sync at which the power goes."""

    def __init__(self, name: str, random: Random, cut_at: int) -> None:
        self.name = name
        self.random = random
        self.cut_at = cut_at
        self.operations = 0
        self.off = False
        self.disks: dict[str, Disk] = {}
        self.images: dict[str, bytes] = {}
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.check()
        if path not in self.disks:
            old = Path(path)
            self.disks[path] = Disk(bytearray(old.read_bytes() if old.exists() else b""))
        flags[1] = flags[0]
        return FaultyFile(self, path)

    def xDelete(self, name: str, syncdir: bool) -> None:
        self.check()
        self.disks.pop(name, None)
        super().xDelete(name, syncdir)

    def check(self) -> None:
        if self.off:
            raise PowerIsOff

    def step(self) -> None:
        """Count an operation; at the chosen one the power goes before it happens."""
        self.check()
        self.operations += 1
        if self.operations == self.cut_at:
            self.cut()
            raise PowerIsOff

    def cut(self) -> None:
        self.off = True
        self.images = {path: disk.survivor(self.random) for path, disk in self.disks.items()}

    def restore(self) -> None:
        """Write the files as they were found after the cut."""
        for path, content in self.images.items():
            Path(path).write_bytes(content)
        self.unregister()


class FaultyFile:
    """One open file: reads see every write, the disk keeps only what was synced."""

    def __init__(self, vfs: FaultyVfs, path: str) -> None:
        self.vfs = vfs
        self.disk = vfs.disks[path]
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def xRead(self, amount: int, offset: int) -> bytes:
        self.vfs.check()
        return os.pread(self.descriptor, amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.vfs.step()
        os.pwrite(self.descriptor, data, offset)
        self.disk.pending.append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        self.vfs.step()
        os.ftruncate(self.descriptor, size)
        self.disk.pending.append((size, None))

    def xSync(self, flags: int) -> None:
        self.vfs.step()
        self.disk.sync()

    def xFileSize(self) -> int:
        return os.fstat(self.descriptor).st_size

    def xClose(self) -> None:
        os.close(self.descriptor)

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return 0
