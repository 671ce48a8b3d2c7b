"""A supervisor whose processes do nothing but what a file says: ``python -m ... FOLDER NUMBER-OF-PROCESSES``.

The file with a process's number has ``refuse`` (it does not start) or ``deaf`` (SIGTERM does not end it); without one
it serves. While there is a file ``full``, the system starts no process.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, processes: str) -> int:
    """Supervise, or be one of the processes."""
    if place := os.environ.get("PIER_PLACE"):
        return _be_one(folder, json.loads(place))
    from bus.serving.supervisor import supervise  # noqa: PLC0415 - the processes need none of it
    from bus.settings import load_settings  # noqa: PLC0415

    start = asyncio.create_subprocess_exec

    async def start_unless_full(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        if (folder / "full").exists():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return await start(*command, **options)

    asyncio.create_subprocess_exec = start_unless_full  # type: ignore[assignment]
    settings = load_settings(None, {"data": folder, "port": 0, "processes": processes, "drain_timeout": 0.1})
    return supervise(settings, lambda _: (folder / "announced").touch())


def _be_one(folder: Path, place: dict[str, Any]) -> int:
    told = folder / str(place["number"])
    behaviour = told.read_text() if told.exists() else ""
    if behaviour == "refuse":
        return 3
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda *_: os._exit(0))
    os.write(place["ready"], json.dumps(["http://127.0.0.1:1", [], "data", False, []]).encode())
    os.close(place["ready"])
    with (folder / f"{place['number']}.lives").open("a") as lives:
        lives.write(f"{os.getpid()}\n")
    os.read(place["leash"], 1)  # until the supervisor is gone, or a signal
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
