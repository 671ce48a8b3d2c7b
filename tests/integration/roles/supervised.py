"""A supervisor whose processes do nothing but what a file says: ``python -m ... FOLDER NUMBER-OF-PROCESSES``.

Each takes one slot, the same for all, if it can, and writes whether it could. The slots of one that died are taken for
as many seconds as the file ``busy`` says, for a moment without it.
The file with a process's number has ``refuse`` (it does not start), ``slow`` (it is starting for ever), ``deaf``
(SIGTERM does not end it) or ``still`` (it answers nobody); without one it serves. While there is a file ``full``, the
system starts no process.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from bus.clock import SystemClock
from bus.cluster.concurrency_slots import SharedSlots


def main(folder: Path, processes: str) -> int:
    """Supervise, or be one of the processes."""
    if place := os.environ.get("PIER_PLACE"):
        return _be_one(folder, json.loads(place))
    from bus.serving import supervisor  # noqa: PLC0415 - the processes need none of it
    from bus.settings import load_settings  # noqa: PLC0415

    start = asyncio.create_subprocess_exec

    async def start_unless_full(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        if (folder / "full").exists():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return await start(*command, **options)

    asyncio.create_subprocess_exec = start_unless_full  # type: ignore[assignment]
    settings = load_settings(None, {"data": folder, "port": 0, "processes": processes, "drain_timeout": 0.1})
    supervisor._ASKED_EVERY = 0.3
    busy = folder / "busy"
    supervisor._STILL_BUSY = float(busy.read_text()) if busy.exists() else 0.05  # type: ignore[misc]
    return supervisor.supervise(settings, lambda _: (folder / "announced").touch())


def _be_one(folder: Path, place: dict[str, Any]) -> int:
    told = folder / str(place["number"])
    behaviour = told.read_text() if told.exists() else ""
    if behaviour == "refuse":
        return 3
    if behaviour == "slow":
        _note(folder / f"{place['number']}.starts")
        while True:
            signal.pause()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda *_: os._exit(0))
    (folder / "port").write_text(str(place["port"]))
    with (folder / f"{place['number']}.slots").open("a") as slots:
        slots.write(f"{_has_slot(place)}\n")
    _note(folder / f"{place['number']}.lives")
    os.write(place["ready"], json.dumps(["http://127.0.0.1:1", [], "data", False, []]).encode())
    os.close(place["ready"])
    if behaviour != "still":
        for number in (place["own"], place["listener"]):
            threading.Thread(target=_serve, args=(socket.socket(fileno=number),), daemon=True).start()
    if not place["number"]:
        threading.Thread(target=_serve_passed, args=(socket.socket(fileno=place["passing"]),), daemon=True).start()
    os.read(place["leash"], 1)  # until the supervisor is gone, or a signal
    return 0


def _has_slot(place: dict[str, Any]) -> bool:
    wakeups = [socket.socket(fileno=number) for number in place["wakeups"]]
    slots = SharedSlots(place["slots"], place["number"], wakeups, SystemClock())
    return not slots.join("orders/billing", lambda: None, lambda _: None).take(1)


def _note(file: Path) -> None:
    with file.open("a") as lives:
        lives.write(f"{os.getpid()}\n")


def _serve(listener: socket.socket) -> None:
    listener.listen(100)
    listener.setblocking(True)
    while True:
        connection, _ = listener.accept()
        _answer(connection)


def _serve_passed(channel: socket.socket) -> None:
    while True:
        select.select([channel], [], [])
        _, (connection, read), _, _ = socket.recv_fds(channel, 1, 2)
        os.close(read)
        _answer(socket.socket(fileno=connection))


def _answer(connection: socket.socket) -> None:
    with connection:
        connection.setblocking(True)
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
