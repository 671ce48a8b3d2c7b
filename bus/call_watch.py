"""Calls to a client library that neither end nor fail: the client is abandoned, and at last the process ends.

If a server cannot be reached, calls fail: the library has deadlines, and what waits on a connection fails when that is
cut. A call that does neither waits for the library itself, as for a lock that was not released. Only a new client
helps then, or a new process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from bus.sentences import Said, joined, sentence

_log = logging.getLogger(__name__)
Value = TypeVar("Value")

GRACE: Final = 1.0  # seconds in which a call has to end that was cancelled, whose connection was cut, or that is late
MOST_RENEWALS: Final = 3
MOST_ABANDONED: Final = 16  # clients whose calls hang still
_REPORTED_FOR: Final = 60.0
end_process: Final = os._exit  # nothing is waited for: what should end is what hangs


class CallHangs(TimeoutError):
    """A call neither ends nor fails; it is abandoned with its client."""


class CallWatch:
    """Watches the calls of one client at a time, and of those that replace it.

    Parameters
    ----------
    name
        What the client is for; part of the alarm and of the log.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._stuck: object = None
        self._renewals = 0  # since a call of another client ended
        self._reported_until = 0.0

    @property
    def trouble(self) -> Said:
        """Return which client was replaced within the last minute; empty for none."""
        if time.monotonic() >= self._reported_until:
            return ""
        return sentence("{client}: calls neither ended nor failed; the client was replaced", client=self._name)

    async def call(
        self, work: Coroutine[Any, Any, Value], *, within: float, client: object, cut: Callable[[], object]
    ) -> Value:
        """Return what comes of a call within so many seconds; it is cancelled at most once.

        For libraries whose calls can be cancelled once. A second cancellation, as of two deadlines, could leave one of
        their locks taken: before Python 3.12 ``asyncio.wait_for`` does not survive it.

        Parameters
        ----------
        client
            The client is not to be used again after ``CallHangs``.
        cut
            Called when the call does not end although it was cancelled; cuts the client's connections, which makes
            every call fail that waits for a server.

        Raises
        ------
        TimeoutError
            The call took longer.
        CallHangs
            The call took longer, and did not end when it was cancelled and the connections were cut.
        """
        call, is_late = self.start(work), False
        try:
            await asyncio.wait({call}, timeout=within)
        finally:
            if is_late := not call.done():
                await self._stop(call, client, cut)
        self._judge(call, client)
        if is_late and call.cancelled():
            raise TimeoutError
        return call.result()

    async def uncancelled(self, work: Coroutine[Any, Any, Value], *, within: float, client: object) -> Value:
        """Return what comes of a call that has its own deadline; a caller that is cancelled leaves it to that.

        Raises
        ------
        CallHangs
            The call has not ended two graces after its deadline.
        """
        call = self.start(work)
        # After a suspension of this process the library has not checked its deadline yet: hence the second wait.
        for seconds in (within + GRACE, GRACE):
            await asyncio.wait({call}, timeout=seconds)
        if not call.done():
            self.hangs(call, client)
        self._judge(call, client)
        return call.result()

    def start(self, work: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        """Start a call that continues when its caller is cancelled."""
        call = asyncio.create_task(work)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        call.add_done_callback(_retrieve)
        return call

    async def finish(self, within: float) -> None:
        """Wait for the calls under way, at most so many seconds."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=within)

    def hangs(self, call: asyncio.Task[Any], client: object) -> None:
        """Report a call that neither ends nor fails; end the process if new clients have not helped.

        Whatever was acknowledged is on disk, and a supervisor starts the process again.
        """
        if client is self._stuck:
            return
        self._stuck = client
        self._renewals += 1
        self._abandoned.add(call)
        call.add_done_callback(self._abandoned.discard)
        if self._renewals > MOST_RENEWALS or len(self._abandoned) > MOST_ABANDONED:
            _log.critical("%s: calls neither end nor fail with a new client either; this process ends", self._name)
            end_process(os.EX_SOFTWARE)
        self._reported_until = time.monotonic() + _REPORTED_FOR
        _log.error(
            "%s: calls neither end nor fail; the client is replaced (%d calls are abandoned)",
            self._name,
            len(self._calls),
        )

    async def _stop(self, call: asyncio.Task[Any], client: object, cut: Callable[[], object]) -> None:
        """Cancel a call, then cut its connections; has a deadline, however often the caller is cancelled meanwhile."""
        interrupted: asyncio.CancelledError | None = None
        for step in (call.cancel, cut):
            step()
            until = time.monotonic() + GRACE
            while not call.done() and (left := until - time.monotonic()) > 0:
                try:
                    await asyncio.wait({call}, timeout=left)
                except asyncio.CancelledError as error:
                    interrupted = error
            if call.done():
                break
        else:
            self.hangs(call, client)
        if interrupted is not None:
            raise interrupted

    def _judge(self, call: asyncio.Task[Any], client: object) -> None:
        if not call.done():
            raise CallHangs("the call neither ends nor fails")
        if client is not self._stuck:
            self._renewals = 0


def troubles(watches: Iterable[CallWatch]) -> Said:
    """Return which clients were replaced within the last minute; empty for none."""
    return joined(trouble for call_watch in watches if (trouble := call_watch.trouble))


def _retrieve(call: asyncio.Task[Any]) -> None:
    """Retrieve an error: a caller that was cancelled does not, and the loop would log it."""
    if not call.cancelled():
        call.exception()
