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
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from bus.localized_text import AnyText, joined, localized

_log = logging.getLogger(__name__)
Value = TypeVar("Value")

GRACE: Final = 1.0  # seconds in which a call has to end that was cancelled, whose connection was cut, or that is late
MOST_RENEWALS: Final = 3
MOST_ABANDONED: Final = 16  # clients whose calls hang still
_REPORTED_FOR: Final = 60.0
_replaced: Final[dict[str, float]] = {}  # by the name of a client, until when that is reported
end_process: Final = os._exit  # nothing is waited for: what should end is what hangs


def replaced() -> AnyText:
    """Return which clients of this process were replaced within the last minute; empty for none."""
    for name in [name for name, until in _replaced.items() if time.monotonic() >= until]:
        del _replaced[name]
    return joined(
        localized("{client}: calls neither ended nor failed; the client was replaced", client=name)
        for name in _replaced
    )


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
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._stuck: object = None
        self._kind = ""
        self._renewals = 0  # since a call of the kind that hung ended with another client

    async def call(
        self,
        work: Coroutine[Any, Any, Value],
        *,
        within: float,
        client: object,
        cut: Callable[[], object],
        kind: str = "",
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
        kind
            What the call does: a new client helps when it does the same.

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
                await self.stop({call}, client=client, cut=cut, kind=kind)
        self._judge(call, client, kind)
        if is_late and call.cancelled():
            raise TimeoutError
        return call.result()

    async def stop(
        self, calls: Collection[asyncio.Task[Any]], *, client: object, cut: Callable[[], object], kind: str = ""
    ) -> None:
        """Cancel calls that ``start`` began, then cut their connections; parameters as of ``call``.

        Has a deadline, however often the caller is cancelled meanwhile. Those that do not end are abandoned.
        """
        interrupted: asyncio.CancelledError | None = None
        for step in (partial(_cancel, calls), cut):
            step()
            until = time.monotonic() + GRACE
            while (left := [call for call in calls if not call.done()]) and time.monotonic() < until:
                try:
                    await asyncio.wait(left, timeout=until - time.monotonic())
                except asyncio.CancelledError as error:
                    interrupted = error
            if not left:
                break
        for call in calls:
            if call.done():
                self.ended(client, kind)
            else:
                self.report(call, client, kind)
        if interrupted is not None:
            raise interrupted

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
            self.report(call, client, "")
        self._judge(call, client, "")
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

    def ended(self, client: object, kind: str = "") -> None:
        """Note that a call ended: a client that replaced another one works if the same call hung before."""
        if client is not self._stuck and kind == self._kind:
            self._renewals = 0

    def report(self, call: asyncio.Future[Any], client: object, kind: str = "") -> None:
        """Report a call that neither ends nor fails; end the process if new clients have not helped.

        Whatever was acknowledged is on disk, and a supervisor starts the process again.
        """
        if client is self._stuck:
            return
        self._stuck, self._kind = client, kind
        self._renewals += 1
        self._abandoned.add(call)
        call.add_done_callback(self._abandoned.discard)
        if self._renewals > MOST_RENEWALS or len(self._abandoned) > MOST_ABANDONED:
            _log.critical("%s: calls neither end nor fail with a new client either; this process ends", self._name)
            end_process(os.EX_SOFTWARE)
        _replaced[self._name] = time.monotonic() + _REPORTED_FOR
        _log.error(
            "%s: calls neither end nor fail; the client is replaced (%d calls are abandoned)",
            self._name,
            len(self._calls),
        )

    def _judge(self, call: asyncio.Task[Any], client: object, kind: str) -> None:
        if not call.done():
            raise CallHangs("the call neither ends nor fails")
        self.ended(client, kind)


def _cancel(calls: Collection[asyncio.Task[Any]]) -> None:
    for call in calls:
        call.cancel()


def _retrieve(call: asyncio.Task[Any]) -> None:
    """Retrieve an error: a caller that was cancelled does not, and the loop would log it."""
    if not call.cancelled():
        call.exception()
