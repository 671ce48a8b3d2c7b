"""The thread that sends the spools' records to the receiver."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from threading import Condition, Event

from bus import spool
from bus.client.network.backoff import Backoff
from bus.client.network.http import Reply
from bus.client.network.receivers import CONFIGURED, Receivers
from bus.client.options import REQUEST_LINES, Options
from bus.client.sending.confirms import Confirms
from bus.client.sending.orphans import Orphans
from bus.client.sending.releasing import LeaseRelease
from bus.client.sending.sender import Sender
from bus.client.spooling.marker import Marker
from bus.errors import SpoolClosed, SpoolError

_log = logging.getLogger("bus.client")


class Daemon:
    """Sends from the process's own spool, and from orphaned spools.

    ``run`` is the thread; ``step`` does the work that is due without waiting, so that tests can drive it. Other threads
    may only call ``ring``, ``hurry``, ``sweep`` and ``stop``, and wait for ``progress``.

    Parameters
    ----------
    marker
        The leases of the process's own spool.
    confirms
        Gets the outcome of each message in it.

    Attributes
    ----------
    trouble
        Why the configured receiver took nothing when it was last asked; empty when it did.
    """

    def __init__(self, own: spool.BlockingSpool, options: Options, marker: Marker, confirms: Confirms) -> None:
        self._options = options
        self._clock = options.clock
        self._spool = own
        self._confirms = confirms
        self._own = Sender(own, self._clock, self._backoff, confirms, options.source)
        self._releasing = LeaseRelease(marker, self._own, self._backoff())
        self._orphans = Orphans(own, options, self._backoff)
        self._receivers = Receivers(options)
        self._outage = self._backoff()
        self._most = REQUEST_LINES
        self._bell = Event()
        self._hurried = False
        self._sweeps = False
        self._stopping = False
        self._resting = False
        self._in_outage = False
        self._is_deaf = False
        self.has_ended = False
        self.trouble = ""
        self.progress = Condition()

    def _backoff(self) -> Backoff:
        options = self._options
        return Backoff(options.backoff_first, options.backoff_longest, options.random)

    # For other threads

    def ring(self) -> None:
        """Signal new records; ignored during an outage, when an earlier attempt is of no use."""
        if not (self._is_deaf or self._bell.is_set()):
            self._bell.set()

    def hurry(self) -> None:
        """Have the next try made now instead of after the backoff, unless the receiver asked to wait."""
        self._hurried = True
        self._bell.set()

    def sweep(self) -> None:
        """Search for orphaned directories now."""
        self._sweeps = True
        self._bell.set()

    def stop(self) -> None:
        """Have the thread end after the request that it makes."""
        self._stopping = True
        self._bell.set()

    @property
    def is_resting(self) -> bool:
        """Whether there is nothing to do now: all records are sent, or the rest is scheduled for a later attempt."""
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
        """Do the work that is due; return the seconds until more is due, 0 when there is more to do now."""
        now = self._clock.monotonic()
        if self._hurried:
            self._hurried = False
            self._outage.hurry()
            self._own.hurry()
        if self._sweeps:
            self._sweeps = False
            self._orphans.next_sweep = now
        self._orphans.sweep(now)
        self._in_outage = now < self._outage.due
        self._is_deaf = self._in_outage and not self._receivers.has_leaders
        if self._is_deaf:
            self._own.rest()
            return min(self._outage.due, self._orphans.next_sweep) - now
        sent = self._round()
        if self._release() or sent:
            return 0.0
        self._own.rest()
        return max(0.0, min(self._due_times()) - self._clock.monotonic())

    def _due_times(self) -> Iterable[float]:
        now = self._clock.monotonic()
        yield from self._orphans.due_times(now)
        if self._in_outage:
            yield self._outage.due
        yield from (due for due in (self._own.due(), self._releasing.due(now)) if due is not None)

    def _round(self) -> bool:
        """Send one batch from each spool; return whether there was any.

        To each destination what an earlier process of the same source left goes before what this one has: a restart
        does not change the order of its messages.
        """
        sent, earlier, failures = False, set[str](), self._outage.failures
        for orphan in self._orphans:
            if self._stopping or self._outage.failures > failures:
                return sent
            try:
                sent = self._deliver(orphan.sender, earlier) or sent
                if orphan.is_own:
                    earlier |= orphan.sender.lanes_ahead()
                self._orphans.let_go(orphan, self._receivers)
            except SpoolError as error:
                self._orphans.drop(orphan, error)
        if self._orphans.has_more or self._outage.failures > failures:
            return sent
        return self._deliver(self._own, earlier) or sent

    def _release(self) -> bool:
        is_released = self._releasing.step(self._receivers, self._clock.monotonic())
        if is_released:
            self._tell()
        return is_released

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
            reply = receivers.post(target, batch, sender.report())
            sender.settle(batch, reply, receivers.learn(target, batch, reply))
        except Exception:
            sender.release(batch)
            raise
        self._resize(reply, len(batch.records))
        if target == CONFIGURED:
            self._note(reply)
        self._tell()
        return True

    def _resize(self, reply: Reply, size: int) -> None:
        """Learn from a reply as a whole how much to send at once."""
        if reply.results is not None:
            self._most = min(REQUEST_LINES, self._most * 2)
        elif reply.splits:
            self._most = max(1, size // 2)

    def _note(self, reply: Reply) -> None:
        """Learn from the configured receiver's reply as a whole how long to wait."""
        if reply.results is not None:
            if self._outage.failures:
                _log.info("%s takes messages again", self._options.url)
            self._outage.succeed()
            self.trouble = ""
            return
        if reply.splits and reply.status:
            self.trouble = reply.failure
            return  # smaller requests are tried at once, or that message is sent alone
        if not self._outage.failures:
            _log.warning("%s takes no messages (%s); they are kept and sent again", self._options.url, reply.failure)
        self._outage.fail(self._clock.monotonic(), reply.retry_after)
        self.trouble = reply.failure

    def _end(self) -> None:
        self._orphans.close()
        self._receivers.close()
        self.has_ended = True
        self._confirms.end()
        self._tell()
