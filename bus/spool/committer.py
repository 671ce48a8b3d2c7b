"""One thread that makes slow calls for an event loop, with less hand-over than an executor."""

from __future__ import annotations

from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    Call: TypeAlias = Callable[[], object]
    Done: TypeAlias = Callable[[Exception | None], None]


class Committer:
    """Runs one call at a time; ``done`` is called on the loop with the error or None."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: SimpleQueue[tuple[Call, Done] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="spool-commit", daemon=True)
        self._thread.start()

    def run(self, call: Call, done: Done) -> None:
        """Have the thread make the call."""
        self._calls.put((call, done))

    def close(self) -> None:
        """End the thread after what was given to it."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            call, done = item
            error: Exception | None = None
            try:
                call()
            except Exception as caught:  # noqa: BLE001
                error = caught
            with suppress(RuntimeError):  # the loop was closed under a spool that was not
                self._loop.call_soon_threadsafe(done, error)
