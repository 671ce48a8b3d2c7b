"""The thread that brings what waits in the spools to the receiver."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Condition, Event
from typing import Final

from bus import spool
from bus.client import home
from bus.client.backoff import Backoff
from bus.client.gate import GATE
from bus.client.http import Reply
from bus.client.lanes import CONSUMER, REJECTED
from bus.client.options import REQUEST_LINES, Options
from bus.client.receivers import CONFIGURED, Receivers
from bus.client.sender import Sender, oldest, waiting, waiting_lanes
from bus.errors import SpoolClosed, SpoolError, SpoolFull
from bus.ports.spool import NewRecord

_log = logging.getLogger("bus.client")
MOST_ADOPTED: Final = 16
"""Of other sources: what of them is refused for now takes no place from what this process's own messages wait for."""
_MOST_OWN: Final = 256
_ADOPTED_CACHE: Final = 1 << 20
_FORWARD: Final = 100


class Daemon:
    """Sends from the process's own spool, and from those of processes that are gone.

    ``run`` is the thread; ``step`` does what is due without waiting, so that tests can drive it. Only ``ring``,
    ``hurry``, ``stop`` and the waiting for ``progress`` are for other threads.
    """

    def __init__(self, own: spool.BlockingSpool, options: Options) -> None:
        self._options = options
        self._clock = options.clock
        self._spool = own
        self._own = self._sender(own)
        self._adopted: dict[Path, tuple[spool.BlockingSpool, Sender]] = {}
        self._receivers = Receivers(options)
        self._outage = self._backoff()
        self._most = REQUEST_LINES
        self._next_sweep = 0.0
        self._has_more = False
        self._bell = Event()
        self._hurried = False
        self._stopping = False
        self._resting = False
        self._in_outage = False
        self._is_deaf = False
        self.has_ended = False
        self.progress = Condition()

    def _backoff(self) -> Backoff:
        options = self._options
        return Backoff(options.backoff_first, options.backoff_longest, options.random)

    def _sender(self, of: spool.BlockingSpool) -> Sender:
        return Sender(of, self._clock, self._backoff)

    # For other threads

    def ring(self) -> None:
        """Say that there is something new; during an outage that wakes nobody, since nothing can be done about it."""
        if not (self._is_deaf or self._bell.is_set()):
            self._bell.set()

    def hurry(self) -> None:
        """Have the next try made now instead of after the backoff, unless the receiver asked to wait."""
        self._hurried = True
        self._bell.set()

    def stop(self) -> None:
        """Have the thread end after the request that it makes."""
        self._stopping = True
        self._bell.set()

    @property
    def is_resting(self) -> bool:
        """Whether there is nothing to do now: all is sent, or what is left waits for a later try."""
        return self.has_ended or (self._resting and not self._bell.is_set())

    # The thread

    def run(self) -> None:
        """Work until ``stop``; nothing but that, or the failure of the process's own spool, ends it."""
        try:
            while not self._stopping:
                self._rest(self._careful_step())
        except SpoolError as error:
            if not isinstance(error, SpoolClosed):
                _log.error("sending from %s ended: %s", self._spool.directory, error)
        finally:
            self._end()

    def _rest(self, seconds: float) -> None:
        self._resting = seconds > 0
        if self._resting:
            self._tell()
            self._bell.wait(seconds)
            self._resting = False
        self._bell.clear()

    def _tell(self) -> None:
        with self.progress:
            self.progress.notify_all()

    def _careful_step(self) -> float:
        try:
            return self.step()
        except SpoolError:
            raise
        except Exception:  # noqa: BLE001 - the thread goes on whatever happens
            _log.exception("sending failed; it is tried again")
            self._outage.fail(self._clock.monotonic())
            return max(0.0, self._outage.due - self._clock.monotonic())

    def step(self) -> float:
        """Do what is due and return the seconds until something is; 0 when there is more to do."""
        now = self._clock.monotonic()
        if self._hurried:
            self._hurried = False
            self._outage.hurry()
            self._own.hurry()
        if now >= self._next_sweep:
            self._sweep(now)
        self._in_outage = now < self._outage.due
        self._is_deaf = self._in_outage and not self._receivers.has_leaders
        if self._is_deaf:
            self._own.rest()
            return min(self._outage.due, self._next_sweep) - now
        if self._round():
            return 0.0
        self._own.rest()
        return max(0.0, min(self._due_times()) - self._clock.monotonic())

    def _due_times(self) -> Iterable[float]:
        yield self._next_sweep
        if self._in_outage:
            yield self._outage.due
        for sender in (self._own, *(sender for _, sender in self._adopted.values())):
            due = sender.due()
            if due is not None:
                yield due

    def _round(self) -> bool:
        """Send one batch from each spool; return whether there was any.

        To each destination what an earlier process of the same source left goes before what this one has: a restart
        does not change the order of its messages.
        """
        sent, earlier, failures = False, set[str](), self._outage.failures
        for directory, (adopted, sender) in sorted(self._adopted.items(), key=_age):
            if self._stopping or self._outage.failures > failures:
                return sent
            try:
                sent = self._deliver(sender, earlier) or sent
                if self._is_own(directory):
                    earlier |= waiting_lanes(sender.stats())
                self._let_go(directory, adopted, sender)
            except SpoolError as error:
                self._drop(directory, adopted, error)
        if self._has_more or self._outage.failures > failures:
            return sent
        return self._deliver(self._own, earlier) or sent

    def _deliver(self, sender: Sender, held: Container[str]) -> bool:
        """Send one batch to each receiver that something waits for; return whether there was any."""
        sent = False
        for target in self._receivers.targets:
            if not (target == CONFIGURED and self._in_outage):
                sent = self._deliver_to(target, sender, held) or sent
        return sent

    def _deliver_to(self, target: str, sender: Sender, held: Container[str]) -> bool:
        receivers = self._receivers
        batch = sender.gather(self._most, lambda lane: lane not in held and receivers.takes(target, lane))
        if not batch.records:
            return False
        try:
            reply = receivers.post(target, batch)
            sender.settle(batch, reply, receivers.learn(target, batch, reply))
        except Exception:
            sender.release(batch)
            raise
        if target == CONFIGURED:
            self._note(reply, len(batch.records))
        elif reply.splits:
            self._most = max(1, len(batch.records) // 2)
        self._tell()
        return True

    def _note(self, reply: Reply, size: int) -> None:
        """Learn from the configured receiver's reply as a whole: how long to wait, and how much to send at once."""
        if reply.results is not None:
            if self._outage.failures:
                _log.info("%s takes messages again", self._options.url)
            self._outage.succeed()
            self._most = min(REQUEST_LINES, self._most * 2)
            return
        if reply.splits:
            self._most = max(1, size // 2)
            if reply.status and (size == 1 or reply.is_too_large):
                return  # the lane of that line waits, or smaller requests are tried at once
        if not self._outage.failures:
            _log.warning("%s takes no messages (%s); they are kept and sent again", self._options.url, reply.failure)
        self._outage.fail(self._clock.monotonic(), reply.retry_after)

    # Processes that are gone

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + self._options.sweep_seconds * (0.75 + self._options.random() / 2)
        self._has_more = False
        for directory in home.orphans(self._options.root, self._clock.now() / 1000):
            is_own = self._is_own(directory)
            present = sum(self._is_own(one) is is_own for one in self._adopted)
            if present >= (_MOST_OWN if is_own else MOST_ADOPTED):
                self._has_more |= is_own
                continue
            try:
                self._adopt(directory)
            except (SpoolError, OSError) as error:
                _log.warning("the spool %s of a process that is gone cannot be opened: %s", directory, error)

    def _is_own(self, directory: Path) -> bool:
        """Whether an earlier process of this source left it, so that it goes before what this one has."""
        return home.is_of(directory, self._options.source)

    def _adopt(self, directory: Path) -> None:
        adopted = home.adopt(directory, spool.Options(consumers=(CONSUMER,), cache_bytes=_ADOPTED_CACHE))
        if adopted is None:
            return
        sender = self._sender(adopted)
        self._adopted[directory] = (adopted, sender)
        _log.info("sending %d message(s) that %s left", waiting(sender.stats()), directory)

    def _let_go(self, directory: Path, adopted: spool.BlockingSpool, sender: Sender) -> None:
        """Retire an adopted spool once nothing in it waits; what is rejected is kept in the process's own."""
        if waiting(sender.stats()):
            return
        self._forward_rejected(adopted)
        if sender.stats().records:
            return
        del self._adopted[directory]
        if home.retire(adopted):
            _log.info("%s is empty, removed", directory)
        self._next_sweep = min(self._next_sweep, self._clock.monotonic() + 1)

    def _forward_rejected(self, adopted: spool.BlockingSpool) -> None:
        with suppress(SpoolFull), GATE:
            while records := adopted.claim(CONSUMER, _FORWARD, REJECTED):
                try:
                    self._spool.append([NewRecord(REJECTED, record.payload, record.time) for record in records])
                except SpoolFull:
                    adopted.release(CONSUMER, records)
                    raise
                adopted.ack(CONSUMER, records)
            adopted.settle()

    def _drop(self, directory: Path, adopted: spool.BlockingSpool, error: SpoolError) -> None:
        _log.warning("sending from %s stopped: %s; it is tried again", directory, error)
        del self._adopted[directory]
        with GATE:
            adopted.close()

    def _end(self) -> None:
        for adopted, _ in self._adopted.values():
            with suppress(SpoolError), GATE:
                adopted.close()
        self._adopted.clear()
        self._receivers.close()
        self.has_ended = True
        self._tell()


def _age(adopted: tuple[Path, tuple[spool.BlockingSpool, Sender]]) -> int:
    """Return the time (ms) of the oldest message that waits in an adopted spool, by which they go in turn."""
    _, (_, sender) = adopted
    return min(oldest(sender.stats()), default=0)
