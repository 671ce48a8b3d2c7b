"""Writers that are run, watched and killed, and file systems that are cut off or full."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bus.spool import BlockingSpool
from tests.integration.spool.history import History, drain
from tests.servers import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
UNKNOWN = 3


def command(directory: Path, driver: str, seed: int, calls: int, *more: str) -> list[str]:
    module = "tests.integration.spool.writer"
    return [sys.executable, "-m", module, str(directory), driver, str(seed), str(calls), *more]


def traced(inject: str, arguments: list[str]) -> tuple[int, History, list[str]]:
    """Run a writer under strace with an injection; return its exit code and what it said."""
    need("strace")
    call = inject.partition(":")[0]
    tracer = ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={inject}"]
    done = subprocess.run([*tracer, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines(keepends=True)
    return done.returncode, History.parse(lines), lines


def reopened(directory: Path, history: History) -> list[str]:
    """Open a spool after whatever happened to it, and return what is wrong."""
    with BlockingSpool(directory) as spool:
        found = drain(spool)
        return history.problems(found, damaged=spool.stats().damaged)


def need(program: str) -> None:
    """Skip on a machine without the program; in CI that is an error."""
    if shutil.which(program) is None:
        missing(f"{program} is not installed")


class LoopDisk:
    """A small ext4 file system in a file."""

    def __init__(self, parent: Path, megabytes: int) -> None:
        if os.geteuid() != 0:
            missing("mounting needs root")
        need("mkfs.ext4")
        self.image = parent / "disk.img"
        self.mounted_at = parent / "disk"
        self.mounted_at.mkdir()
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        done = subprocess.run(
            ["mount", "-o", "loop", str(self.image), str(self.mounted_at)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            missing(f"a loop file cannot be mounted here: {done.stderr.strip()}")

    def unmount(self) -> None:
        run("umount", str(self.mounted_at))

    def cut_power(self) -> None:
        """Have the file system stop where it is: what was not written to its journal and data is gone."""
        descriptor = os.open(self.mounted_at, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)


@contextmanager
def loop_disk(parent: Path, megabytes: int) -> Iterator[LoopDisk]:
    disk = LoopDisk(parent, megabytes)
    try:
        yield disk
    finally:
        disk.unmount()


def run(*arguments: str) -> None:
    subprocess.run(arguments, check=True, capture_output=True, timeout=30)
