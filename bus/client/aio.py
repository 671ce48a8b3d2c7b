"""The SDK for event loops."""

from __future__ import annotations

import asyncio
import copy
import math
import os
import time
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from threading import Condition, Thread
from typing import Any, Final, Self

from bus.client.options import Prepared
from bus.client.sync import CLOSE_SECONDS, Bus
from bus.errors import SpoolClosed, SpoolError, SpoolFull

_SLICE: Final = 0.25
"""Seconds after which a cancelled wait for the network leaves its thread."""


class AsyncBus:
    """`Bus` with its names awaited; it takes the same arguments, and no call blocks the loop.

    `send` checks and encodes on the loop (microseconds); one thread stores all that waits in one transaction, so tasks
    share an fsync however many they are. A pool of threads would share it among as many callers as it has threads,
    and a spool on the loop would need a second daemon and die with its loop.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._bus = Bus(*args, **kwargs)
        self._writer: _Writer | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        destination: str,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        deliver_at: datetime | str | None = None,
    ) -> str:
        """Store a message and return its id, as `Bus.send`; durable when this returns.

        Cancelling the wait leaves it open whether the message is sent.
        """
        prepared = self._bus.prepare(
            destination,
            message,
            biz_id=biz_id,
            key=key,
            routing_key=routing_key,
            headers=headers,
            content_type=content_type,
            deliver_at=deliver_at,
        )
        try:
            await self._present_writer().store(prepared)
        except SpoolClosed:
            raise
        except SpoolError as refusal:
            await self._send_straight(prepared, refusal)
        return prepared.id

    async def _send_straight(self, prepared: Prepared, refusal: SpoolError) -> None:
        straight, seconds = self._bus.straight, self._bus.straight.seconds
        verdict = straight.submit(prepared, refusal)
        waiting = asyncio.wrap_future(verdict)
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        problem = waiting.result() if done else straight.give_up(verdict)
        if problem:
            raise straight.failure(refusal, problem)

    async def start(self) -> None:
        """Start the daemon before the first `send`; see `Bus.start`."""
        await asyncio.to_thread(self._bus.start)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the same names as Bus
        """Wait until the receiver has everything that was sent before this call; see `Bus.flush`."""
        outbox = self._bus.present()
        if outbox is None:
            return True
        before = self._bus.now()
        end = math.inf if timeout is None else time.monotonic() + timeout
        outbox.hurry()
        while True:
            left = min(max(0.0, end - time.monotonic()), _SLICE)
            if await asyncio.to_thread(outbox.wait_sent, before, left):
                return True
            if time.monotonic() >= end:
                return False

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109
        """Store what is being sent, then stop as `Bus.close`; may be called twice."""
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None and writer.pid == os.getpid():
            await asyncio.to_thread(writer.close)
        await asyncio.to_thread(self._bus.close, timeout)

    @property
    def pending(self) -> int:
        """How many messages of this process wait to be taken by the receiver."""
        return self._bus.pending

    @property
    def rejected(self) -> int:
        """How many messages this process keeps because the receiver refused them for good."""
        return self._bus.rejected

    @property
    def sent_straight(self) -> int:
        """How many messages of this process the receiver took straight from `send`, since the disk refused them."""
        return self._bus.sent_straight

    def _present_writer(self) -> _Writer:
        if self._closed:
            raise SpoolClosed("the bus was closed", hint="make a new AsyncBus")
        writer = self._writer
        if writer is None or writer.pid != os.getpid():
            writer = self._writer = _Writer(self._bus)
        return writer


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


class _Writer:
    """The thread that stores what tasks send, all that waits in one transaction."""

    def __init__(self, bus: Bus) -> None:
        self.pid = os.getpid()
        self._bus = bus
        self._queue: deque[_Waiting] = deque()
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="bus-store", daemon=True)
        self._thread.start()

    def store(self, prepared: Prepared) -> asyncio.Future[None]:
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
            self._bus.store([waiting.prepared for waiting in taken])
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
