"""Takes a backup, or restores one, and is killed when it syncs for the n-th time: WHAT N DIR DATA."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bus.backups import restore, take
from bus.clock import SystemClock
from bus.settings import load_settings


def begin(_what: str, _size: int) -> Callable[[int], None]:
    return lambda _: None


def main() -> None:
    what, number, directory, data = sys.argv[1:]
    left = int(number)
    sync = os.fsync

    def killed(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)

    os.fsync = killed
    settings = load_settings(None, {"data": Path(data)})
    if what == "backup":
        take(settings, Path(directory), SystemClock(), begin)
    else:
        restore(Path(directory), settings, SystemClock(), begin)


if __name__ == "__main__":
    main()
