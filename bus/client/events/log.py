"""Trace events of a producer: gathered by `send`, written beside the spool and shipped to the receiver by one thread.

No `send` and no message waits for any of it: this thread has a connection of its own, and files that are not shipped
are bounded.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

from bus.client.events.shipping import EventShipping
from bus.client.fork_gate import GATE
from bus.client.network.http import EVENTS_THREAD
from bus.client.options import Options, PreparedMessage
from bus.domain.tracing.events import BLOCK_EVENTS, Stage, TraceEvent
from bus.errors import EventsUnavailable
from bus.events.files import EventFiles, Limits
from bus.events.gathering import EventBuffer
from bus.ports.events import SealedBlock

_log = logging.getLogger("bus.client")
DIRECTORY: Final = "events"
_ROLE: Final = "producer"
_CLOSED_EVERY: Final = 1.0
_LIMIT: Final = 16 * 2**20
_FILE: Final = 2**20  # what the receiver takes in one request


def directory_of(root: Path) -> Path:
    """Return where the events of all processes of a root rest."""
    return root / DIRECTORY


class EventLog:
    """Records trace events of the messages that this process sent; starts its thread at once.

    Events beyond the memory limit, and events that the disk does not accept, are lost; the receiver shows the gap.
    """

    def __init__(self, options: Options) -> None:
        self._clock = options.clock
        self._gathering = EventBuffer(_ROLE, socket.gethostname(), options.clock.now())
        directory = directory_of(options.root)
        limits = Limits(_LIMIT, options.disk_reserve, rotate_bytes=_FILE)
        self._files = EventFiles(
            directory, self._gathering.emitter, limits, options.clock.monotonic, removed=_forget, torn=_forget
        )
        self._shipping = EventShipping(options)
        self._directory = directory
        self._refused: SealedBlock | None = None
        self._close_at = 0.0
        self._awake = False
        self._stopping = False
        self._failing = False
        self._bell = Event()
        self._thread = Thread(target=self._run, name=EVENTS_THREAD, daemon=True)
        with suppress(RuntimeError):  # the interpreter is about to exit
            self._thread.start()

    def sent(self, prepared: Sequence[PreparedMessage]) -> None:
        """Record messages that are durable; callable from any thread, returns at once."""
        now = self._clock.now()
        for one in prepared:
            self._gathering.add(
                TraceEvent(
                    stage=Stage.SENT,
                    at=now,
                    id=one.id,
                    destination=one.destination,
                    bytes=one.bytes,
                    biz_id=one.biz_id,
                    source=one.source,
                )
            )
        if not self._awake or len(self._gathering) >= BLOCK_EVENTS:
            self._awake = True
            self._bell.set()

    def close(self, within: float) -> None:
        """Write the remaining events and ship them while the receiver accepts them, for at most so many seconds.

        The rest stays on disk.
        """
        self._stopping = True
        self._bell.set()
        if self._thread.ident is not None:
            self._thread.join(within)

    # The thread

    def _run(self) -> None:
        with GATE:  # an import that a fork cuts off can never be finished in the child
            pass
        while not self._stopping:
            self._bell.wait(self._careful_step())
            self._bell.clear()
        self._end()

    def _careful_step(self) -> float | None:
        try:
            return self._step()
        except Exception:  # noqa: BLE001 - the thread goes on whatever happens
            _log.exception("trace events are in trouble, messages are not")
            return _CLOSED_EVERY

    def _step(self) -> float | None:
        """Do the work that is due; return the seconds until more is due, None when none is scheduled."""
        now = self._clock.monotonic()
        self._gather(now)
        self._files.tend()
        self._shipping.ship(self._files.closed)
        dues = [self._close_at if self._awake else None, self._files.rotate_at, self._shipping.due]
        known = [due for due in dues if due is not None]
        return max(0.0, min(known) - self._clock.monotonic()) if known else None

    def _gather(self, now: float) -> None:
        """Write blocks a second after their first event, or when there are a thousand."""
        if self._awake and self._close_at and (now >= self._close_at or len(self._gathering) >= BLOCK_EVENTS):
            self._write()
            self._close_at = 0.0
        # In this order: who adds an event after the look rings the bell.
        self._awake = False
        if len(self._gathering) or self._refused is not None:
            self._awake = True
            self._close_at = self._close_at or now + _CLOSED_EVERY

    def _write(self) -> None:
        """Write the events that wait now, without later ones, which would make small blocks."""
        left = len(self._gathering)
        while self._refused is not None or left > 0:
            block = self._refused or self._gathering.close(self._clock.now())
            if block is None:
                return
            left -= sum(block.stages.values()) if self._refused is None else 0
            try:
                self._files.write([block])
            except EventsUnavailable as error:
                self._refused = block
                if not self._failing:
                    _log.warning("trace events are not written, and lost beyond what memory holds: %s", error)
                self._failing = True
                return
            self._refused, self._failing = None, False

    def _end(self) -> None:
        with suppress(Exception):
            self._write()
            self._files.rotate()
            self._shipping.ship(self._files.closed)
        self._shipping.close()
        with suppress(OSError):
            self._directory.rmdir()  # when nothing is left in it


def _forget(_: int) -> None:
    """Do nothing: a producer has no metrics, and readers detect missing events."""
