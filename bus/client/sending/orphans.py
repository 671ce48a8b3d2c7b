"""Orphaned spools of ended processes: taken over, sent from, and removed once they are empty."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bus import spool
from bus.client.fork_gate import GATE
from bus.client.network.backoff import Backoff
from bus.client.network.receivers import Receivers
from bus.client.options import Options
from bus.client.sending.releasing import LeaseRelease
from bus.client.sending.sender import Sender, oldest, waiting
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER, REJECTED
from bus.client.spooling.marker import Marker
from bus.errors import SpoolError, SpoolFull
from bus.ports.spool import NewRecord

_log = logging.getLogger("bus.client")
MOST_ADOPTED: Final = 16
"""Of other sources: what of them is refused for now takes no place from what this process's own messages wait for."""
_MOST_OWN: Final = 256
_CACHE: Final = 1 << 20
_FORWARD: Final = 100
_SOON: Final = 1.0


class Orphan(NamedTuple):
    """A directory that this process has taken over; ``is_own`` says that its source is this process's."""

    spool: spool.BlockingSpool
    sender: Sender
    releasing: LeaseRelease
    is_own: bool


class Orphans:
    """Finds orphaned spools below the root, and keeps those that it has taken over; used by the daemon's thread.

    Parameters
    ----------
    own
        Spool for messages that were rejected permanently.
    """

    def __init__(self, own: spool.BlockingSpool, options: Options, new_backoff: Callable[[], Backoff]) -> None:
        self._own = own
        self._options = options
        self._new_backoff = new_backoff
        self._adopted: dict[Path, Orphan] = {}
        self.next_sweep = 0.0
        self.has_more = False

    def __iter__(self) -> Iterator[Orphan]:
        """Those that it has, the one with the oldest message first."""
        return iter(sorted(self._adopted.values(), key=_age))

    def due_times(self, now: float) -> Iterator[float]:
        """When something is to be done, in monotonic seconds."""
        yield self.next_sweep
        for orphan in self._adopted.values():
            yield from (due for due in (orphan.sender.due(), orphan.releasing.due(now)) if due is not None)

    def sweep(self, now: float) -> None:
        """Take over orphaned spools, when the next search is due."""
        if now < self.next_sweep:
            return
        options = self._options
        self.next_sweep = now + options.sweep_seconds * (0.75 + options.random() / 2)
        self.has_more = False
        for directory in home.orphans(options.root, options.clock.now() / 1000):
            is_own = home.is_of(directory, options.source)
            present = sum(one.is_own is is_own for one in self._adopted.values())
            if present >= (_MOST_OWN if is_own else MOST_ADOPTED):
                self.has_more |= is_own
                continue
            try:
                self._adopt(directory, is_own=is_own)
            except (SpoolError, OSError) as error:
                _log.warning("the spool %s of a process that is gone cannot be opened: %s", directory, error)

    def _adopt(self, directory: Path, *, is_own: bool) -> None:
        adopted = home.adopt(directory, spool.Options(consumers=(CONSUMER,), cache_bytes=_CACHE))
        if adopted is None:
            return
        source = self._options.source if is_own else ""
        sender = Sender(adopted, self._options.clock, self._new_backoff, source=source)
        marker = Marker(directory)
        marker.end(marker.codes)
        releasing = LeaseRelease(marker, sender, self._new_backoff())
        self._adopted[directory] = Orphan(adopted, sender, releasing, is_own)
        _log.info("sending %d message(s) that %s left", waiting(sender.stats()), directory)

    def let_go(self, orphan: Orphan, receivers: Receivers) -> None:
        """Retire a spool without queued messages and leases; its rejected messages move to the own spool."""
        now = self._options.clock.monotonic()
        orphan.releasing.step(receivers, now)
        if orphan.releasing.marker.codes or waiting(orphan.sender.stats()):
            return
        self._forward_rejected(orphan.spool)
        if orphan.sender.stats().records:
            return
        directory = orphan.spool.directory
        del self._adopted[directory]
        if home.retire(orphan.spool):
            _log.info("%s is empty, removed", directory)
        self.next_sweep = min(self.next_sweep, now + _SOON)

    def _forward_rejected(self, adopted: spool.BlockingSpool) -> None:
        with suppress(SpoolFull), GATE:
            while records := adopted.claim(CONSUMER, _FORWARD, REJECTED):
                try:
                    self._own.append([NewRecord(REJECTED, record.payload, record.time) for record in records])
                except SpoolFull:
                    adopted.release(CONSUMER, records)
                    raise
                adopted.ack(CONSUMER, records)
            adopted.settle()

    def drop(self, orphan: Orphan, error: SpoolError) -> None:
        """Give up one that failed; it is taken over again."""
        _log.warning("sending from %s stopped: %s; it is tried again", orphan.spool.directory, error)
        del self._adopted[orphan.spool.directory]
        with GATE:
            orphan.spool.close()

    def close(self) -> None:
        """Give up all."""
        for orphan in self._adopted.values():
            with suppress(SpoolError), GATE:
                orphan.spool.close()
        self._adopted.clear()


def _age(orphan: Orphan) -> int:
    """Return the time (ms) of the oldest message that waits in a spool, by which they go in turn."""
    return min((at or 0 for at in oldest(orphan.sender.stats())), default=0)
