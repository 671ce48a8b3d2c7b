"""The thread that stores what the tasks of event loops send."""

from __future__ import annotations

import asyncio
import copy
import os
from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from typing import Protocol

from bus.client.options import Prepared
from bus.errors import SpoolFull


class _Waiting:
    """A message to store and the task that waits for it."""

    __slots__ = ("done", "error", "loop", "prepared")

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.error: Exception | None = None

    def answer(self) -> None:
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.error)


class Storing(Protocol):
    """What stores messages, as a thread may wait for it."""

    def store(self, prepared: Sequence[Prepared]) -> None:
        """Store messages, all or none, durably, or raise ``BusError``."""
        ...


class Writer:
    """The thread that stores what tasks send, all that waits in one transaction."""

    def __init__(self, storing: Storing) -> None:
        self.pid = os.getpid()
        self._storing = storing
        self._queue: deque[_Waiting] = deque()
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="bus-store", daemon=True)
        self._thread.start()

    def store(self, prepared: Prepared) -> asyncio.Future[None]:
        """Have a message stored; the future of the running loop ends once it is, or with the error."""
        waiting = _Waiting(prepared)
        with self._changed:
            self._queue.append(waiting)
            self._changed.notify()
        return waiting.done

    def close(self) -> None:
        """End the thread after what was given to it."""
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

    def _store(self, taken: list[_Waiting]) -> None:
        try:
            self._storing.store([waiting.prepared for waiting in taken])
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


def _answer(taken: list[_Waiting]) -> None:
    """Wake the tasks, with one call per loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
    for waiting in taken:
        loops.setdefault(waiting.loop, []).append(waiting)
    for loop, group in loops.items():
        try:
            loop.call_soon_threadsafe(_answer_here, group)
        except RuntimeError:  # the loop was closed; nobody waits there any more
            continue


def _answer_here(group: list[_Waiting]) -> None:
    for waiting in group:
        waiting.answer()
