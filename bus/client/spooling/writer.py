"""The thread that stores messages sent by tasks of event loops."""

from __future__ import annotations

import asyncio
import copy
import os
from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from typing import Protocol

from bus.client.options import PreparedMessage
from bus.errors import SpoolFull
from bus.ports.spool import Waiter, tell


class _WriteRequest:
    """Messages to store, all or none, with the waiter and its loop."""

    __slots__ = ("_waiter", "error", "loop", "prepared")

    def __init__(
        self, prepared: Sequence[PreparedMessage], waiter: Waiter[None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.prepared = prepared
        self.loop = loop
        self.error: Exception | None = None
        self._waiter = waiter

    def answer(self) -> None:
        tell(self._waiter, self.error)


class MessageStorage(Protocol):
    """Stores messages for a thread that may wait."""

    def store(self, prepared: Sequence[PreparedMessage]) -> None:
        """Store messages, all or none, durably, or raise ``BusError``."""
        ...


class Writer:
    """The thread that stores messages of tasks, all waiting ones in one transaction."""

    def __init__(self, storing: MessageStorage) -> None:
        self.pid = os.getpid()
        self._storing = storing
        self._queue: deque[_WriteRequest] = deque()
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="bus-store", daemon=True)
        self._thread.start()

    def store(self, prepared: PreparedMessage) -> asyncio.Future[None]:
        """Have a message stored; the future of the running loop ends once it is, or with the error."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.store_with([prepared], done)
        return done

    def store_with(self, prepared: Sequence[PreparedMessage], waiter: Waiter[None]) -> None:
        """Have messages stored, all or none, and pass the result or the error to the waiter on the running loop."""
        waiting = _WriteRequest(prepared, waiter, asyncio.get_running_loop())
        with self._changed:
            self._queue.append(waiting)
            if len(self._queue) == 1:  # else it was notified already, or looks before it waits
                self._changed.notify()

    def close(self) -> None:
        """End the thread after the requests that it has."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                taken = list(self._queue)
                self._queue.clear()
            if not taken:
                return
            self._store(taken)
            _answer(taken)

    def _store(self, taken: list[_WriteRequest]) -> None:
        try:
            self._storing.store([prepared for waiting in taken for prepared in waiting.prepared])
        except SpoolFull as error:
            if len(taken) == 1:
                taken[0].error = error
                return
            middle = len(taken) // 2  # what still fits is stored
            self._store(taken[:middle])
            self._store(taken[middle:])
        except Exception as error:  # noqa: BLE001 - it is each waiting task's
            for waiting in taken:
                waiting.error = copy.copy(error)  # each task adds its own traceback


def _answer(taken: list[_WriteRequest]) -> None:
    """Wake the tasks, with one call per loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_WriteRequest]] = {}
    for waiting in taken:
        loops.setdefault(waiting.loop, []).append(waiting)
    for loop, group in loops.items():
        try:
            loop.call_soon_threadsafe(_answer_here, group)
        except RuntimeError:  # the loop was closed; nothing waits there any more
            continue


def _answer_here(group: list[_WriteRequest]) -> None:
    for waiting in group:
        waiting.answer()
