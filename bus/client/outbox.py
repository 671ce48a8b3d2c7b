"""The spool directory of one process's `Bus`, and the daemon that empties it."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock, Thread
from typing import Final, NamedTuple

from bus import spool
from bus.client.events.log import EventLog
from bus.client.fork_gate import GATE
from bus.client.network.http import THREAD
from bus.client.options import REQUEST_BYTES, Options, PreparedMessage
from bus.client.sending.confirms import Confirms
from bus.client.sending.daemon import Daemon
from bus.client.sending.sender import oldest, rejected, waiting, waiting_lanes
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER, lane_of
from bus.client.spooling.line import Line, encode_line
from bus.client.spooling.marker import Marker
from bus.errors import MessageTooLarge, SpoolError
from bus.ports.spool import NewRecord, SpoolStats

EXIT_SECONDS: Final = 2.0
"""How long the interpreter's exit waits for what is still on its way; what is not sent stays on disk."""
_LAST_REQUEST: Final = 0.5
_CACHE: Final = 4 << 20


class Leftovers(NamedTuple):
    """Messages that a process left on disk: queued ones, and ones that the receiver rejected permanently."""

    pending: int = 0
    rejected: int = 0


class Outbox:
    """Opens a new spool directory and starts the daemon.

    Raises
    ------
    SpoolFailed
        The disk failed; nothing was started.
    """

    def __init__(self, options: Options) -> None:
        self.pid = os.getpid()
        self._options = options
        settings = spool.Options(
            consumers=(CONSUMER,), limit=options.spool_limit, reserve=options.disk_reserve, cache_bytes=_CACHE
        )
        self._spool = home.open_home(options.root, options.source, settings)
        self._latest = 0
        self.marker = Marker(self._spool.directory)
        self.confirms = Confirms()
        self.is_abandoned = False
        self._daemon = Daemon(self._spool, options, self.marker, self.confirms)
        self._thread = Thread(target=self._daemon.run, name=THREAD, daemon=True)
        with suppress(RuntimeError):  # the interpreter is about to exit; the next process sends what is stored now
            self._thread.start()
        self._events = EventLog(options) if options.events else None
        _OPEN.add(self)

    @property
    def is_foreign(self) -> bool:
        """Whether this process got it by a fork, and must leave it alone."""
        return self.pid != os.getpid()

    def append(self, prepared: Sequence[PreparedMessage]) -> None:
        """Store messages, all or none; durable when it returns. Threads at the same time share one fsync.

        Raises
        ------
        SpoolFull
            Nothing of this call was stored.
        SpoolFailed
            The disk failed; nothing of this call is promised.
        """
        with GATE:
            self._spool.append([one.record for one in prepared])
            self._latest = max([self._latest, *(one.record.time for one in prepared)])
        self._daemon.ring()
        if self._events is not None:
            self._events.sent(prepared)

    def stats(self) -> SpoolStats:
        """Return the spool's counts."""
        with GATE:
            return self._spool.stats()

    def waits(self, destination: str) -> bool:
        """Whether messages to a destination are queued here; True when the disk cannot be read."""
        try:
            return lane_of(destination) in waiting_lanes(self.stats())
        except SpoolError:
            return True

    @property
    def trouble(self) -> str:
        """Why the receiver took nothing when it was last asked; empty when it did, or was not asked yet."""
        return self._daemon.trouble

    @property
    def pending(self) -> int:
        """How many messages wait to be taken by the receiver."""
        return waiting(self.stats())

    @property
    def rejected(self) -> int:
        """How many messages are kept because the receiver will never take them as they are."""
        return rejected(self.stats())

    def hurry(self) -> None:
        """Have the next try made now, unless the receiver asked to wait."""
        self._daemon.hurry()

    def sweep(self) -> None:
        """Search now for directories that ended processes left, and send their messages."""
        self._daemon.sweep()

    def release(self, code: str, timeout: float) -> bool:
        """Have a lease released once nothing of it waits; return whether it was within ``timeout`` seconds."""
        self.marker.end([code])
        self.hurry()
        daemon = self._daemon
        with daemon.progress:
            daemon.progress.wait_for(lambda: self.has_ended or code not in self.marker.codes, timeout)
        return code not in self.marker.codes

    def wait_sent(self, before: int, timeout: float | None) -> bool:
        """Return whether, within ``timeout`` seconds, no message appended up to a time in ms is queued any more.

        Where the clock was put back since, of all that was appended up to now.
        """
        daemon = self._daemon
        with GATE:
            before = max(before, self._latest)
        with daemon.progress:
            daemon.progress.wait_for(lambda: self.has_ended or self._is_sent(before), timeout)
            return self._is_sent(before)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is sent from it any more."""
        return self._daemon.has_ended or self._thread.ident is None

    def _is_sent(self, before: int) -> bool:
        return all(time is not None and time > before for time in oldest(self.stats()))

    def close(self, timeout: float) -> Leftovers:
        """Stop, and release the directory; first wait up to ``timeout`` seconds while the receiver accepts messages.

        What is left stays on disk, for the next process that uses the root; returns how much that is.
        """
        end = time.monotonic() + timeout
        self.marker.end(self.marker.codes)
        self._daemon.ring()
        with suppress(SpoolError):
            self._linger(timeout)
        self._daemon.stop()
        if self._thread.ident is not None:
            self._thread.join(max(_LAST_REQUEST, end - time.monotonic()))
        if self._events is not None:
            self._events.close(_LAST_REQUEST)
        _OPEN.discard(self)
        left = Leftovers()
        try:
            left = Leftovers(self.pending, self.rejected)
            home.retire(self._spool)
        except SpoolError:
            self.abandon()
        return left

    def _linger(self, timeout: float) -> None:
        daemon = self._daemon
        with daemon.progress:
            daemon.progress.wait_for(
                lambda: self.has_ended or daemon.is_resting or not (self.pending or self.marker.codes), timeout
            )

    def abandon(self) -> None:
        """Close a spool whose disk failed; its directory is adopted, and its readable messages are sent from there."""
        self.is_abandoned = True
        _OPEN.discard(self)
        self._daemon.stop()
        if self._events is not None:
            self._events.close(0)
        with suppress(SpoolError), GATE:
            self._spool.close()

    def disown(self) -> None:
        """In a forked child: keep the parent's handles from being closed here."""
        self._spool.close()


def record_of(line: Line, now: int) -> NewRecord:
    """Return the spool record of a line, in the stream of its destination; ``now`` in milliseconds since the epoch.

    Raises
    ------
    MessageTooLarge
        With its headers it does not fit into a request.
    """
    payload = encode_line(line)
    if len(payload) >= REQUEST_BYTES:
        raise MessageTooLarge(
            f"the message with its headers makes a line of {len(payload)} bytes; the limit is {REQUEST_BYTES}",
            hint="send a reference to it",
            field="headers",
        )
    return NewRecord(lane_of(line.destination, alone=line.producer > 0), payload, now)


class _StartLock:
    """The lock under which outboxes are opened; a forked child gets a new one."""

    def __init__(self) -> None:
        self.lock = RLock()

    def after_in_child(self) -> None:
        self.lock = RLock()
        for outbox in _OPEN:
            outbox.disown()
            _INHERITED.append(outbox)
        _OPEN.clear()


def _close_all() -> None:
    end = time.monotonic() + EXIT_SECONDS
    for outbox in list(_OPEN):
        outbox.close(max(0.0, end - time.monotonic()))


_OPEN: Final[set[Outbox]] = set()
_INHERITED: Final[list[Outbox]] = []
STARTING: Final = _StartLock()
os.register_at_fork(after_in_child=STARTING.after_in_child)
atexit.register(_close_all)
