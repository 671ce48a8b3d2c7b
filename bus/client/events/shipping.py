"""Ships closed files of trace events to the receiver, one request each; deletes a file only after a 2xx."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bus.client.fork_gate import GATE
from bus.client.network.backoff import LONGEST_RETRY_AFTER, Backoff
from bus.client.network.http import EventsReply, ReceiverClient
from bus.client.options import Options

_log = logging.getLogger("bus.client")
_TIMEOUT: Final = 5.0
_NO_ROUTE: Final = (404, 405)
_LATER: Final = frozenset({401, 403, 408, 425, 429})
_FORBIDDEN: Final = 403
_FIRST_SERVER_ERROR: Final = 500


class EventShipping:
    """Ships files in the order in which they were closed; used by one thread.

    A receiver without the events route is retried after ten minutes, and nothing is logged. A file that the receiver
    rejects permanently is deleted. All others are kept and shipped later; the limit of the directory bounds them.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._clock = options.clock
        self._backoff = Backoff(options.backoff_first, options.backoff_longest, options.random)
        self._receiver: ReceiverClient | None = None
        self._told: set[int] = set()

    @property
    def due(self) -> float | None:
        """The monotonic time of the next try after a failure; None when there was none."""
        return self._backoff.due if self._backoff.failures else None

    def ship(self, closed: Callable[[], Sequence[Path]]) -> None:
        """Ship closed files until the receiver does not accept one."""
        if self._clock.monotonic() < self._backoff.due:
            return
        failed: EventsReply | None = None
        for path in closed():
            with _claimed(path) as body:
                reply = self._post(body) if body else None
                if reply is None:
                    continue
                if reply.is_taken or self._is_refused(reply):
                    path.unlink(missing_ok=True)
                    continue
            failed = reply
            if reply.status != _FORBIDDEN:  # which is about the destinations of this file
                break
        self._note(failed)

    def close(self) -> None:
        """Give up the connection."""
        if self._receiver is not None:
            self._receiver.close()

    def _post(self, body: bytes) -> EventsReply:
        if self._receiver is None:
            options = self._options
            with GATE:  # an import that a fork cuts off can never be finished in the child
                self._receiver = ReceiverClient(
                    options.url, options.api_key, options.clock, min(_TIMEOUT, options.timeout), options.transport
                )
        return self._receiver.ship(body)

    def _is_refused(self, reply: EventsReply) -> bool:
        """Whether the receiver rejects a file permanently."""
        status = reply.status
        is_kept = not status or status in _LATER or status in _NO_ROUTE or status >= _FIRST_SERVER_ERROR
        if not is_kept:
            self._tell(reply, "are deleted")
        return not is_kept

    def _note(self, failed: EventsReply | None) -> None:
        if failed is None:
            self._backoff.succeed()
            self._told.clear()
        elif failed.status in _NO_ROUTE:
            self._backoff.fail(self._clock.monotonic(), LONGEST_RETRY_AFTER)
        else:
            self._tell(failed, "are kept and shipped later")
            self._backoff.fail(self._clock.monotonic(), failed.retry_after)

    def _tell(self, reply: EventsReply, what: str) -> None:
        if reply.status not in self._told:
            _log.warning("%s takes no trace events (%s); they %s", self._options.url, reply.failure, what)
        self._told.add(reply.status)


@contextmanager
def _claimed(path: Path) -> Iterator[bytes]:
    """Yield a file's lines under its lock; nothing when another process has it, or had it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield b""
        return
    try:
        yield _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return b""
    status = os.fstat(descriptor)
    return os.pread(descriptor, status.st_size, 0) if status.st_nlink else b""
