"""A small file system of its own: an ext4 in a sparse file over a loop device, which can be filled and cut off.

Needs root; where that is not to be had, or there are no loop devices, it is a server that is missing.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.servers import missing

MIB: Final = 2**20
_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
_NO_LOG_FLUSH: Final = 2


class LoopDisk:
    """A mounted file system; ``path`` is its root."""

    def __init__(self, folder: Path, size: int) -> None:
        self._image = folder / "disk.img"
        self.path = folder / "disk"
        self._filler = self.path / "filler"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(size)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount it, as after a restart."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it; nobody may use it any more."""
        _run("umount", str(self.path))

    def cut_power(self) -> None:
        """Have it stop where it is: what was not written to its journal and data is gone once it is mounted again."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def free(self) -> int:
        """Return the bytes that an ordinary write could still take."""
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def fill(self, *, leave: int) -> None:
        """Take all space but ``leave`` bytes."""
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free() - leave)
            os.fsync(file.fileno())

    def empty(self) -> None:
        """Give the space back."""
        self._filler.unlink()


@contextmanager
def loop_disk(folder: Path, size: int) -> Iterator[LoopDisk]:
    """Mount a new file system of ``size`` bytes below ``folder``."""
    disk = LoopDisk(folder, size)
    try:
        yield disk
    finally:
        disk.unmount()


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        missing(f"no loop-mounted file system: {argv[0]} is not on the PATH")
    if done.returncode:
        missing(f"no loop-mounted file system: {' '.join(argv)}: {done.stderr.strip()}")
