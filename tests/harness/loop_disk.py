"""A small file system of its own: an ext4 in a sparse file, mounted over a loop device. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1024 * 1024


class NoLoopDisk(RuntimeError):
    """This machine cannot mount one; the text says why."""


class LoopDisk:
    """A mounted file system that can be filled and freed."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self._filler = mount / "filler"

    def free(self) -> int:
        """Return the bytes that an ordinary write could still take."""
        state = os.statvfs(self.mount)
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
    """Mount a new file system of ``size`` bytes below ``folder``.

    Raises
    ------
    NoLoopDisk
        Not root, or there are no loop devices.
    """
    image, mount = folder / "disk.img", folder / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-m", "0", str(image))
    _run("mount", "-o", "loop", str(image), str(mount))
    try:
        yield LoopDisk(mount)
    finally:
        _run("umount", str(mount))


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoLoopDisk(f"{argv[0]} is not on the PATH") from None
    if done.returncode:
        raise NoLoopDisk(f"{' '.join(argv)}: {done.stderr.strip()}")
