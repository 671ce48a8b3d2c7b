"""The lease of one process: its exclusive right to send to a strictly ordered destination."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from bus.client.network.http import Answer
from bus.client.network.receivers import Receivers
from bus.client.options import Options, PreparedMessage
from bus.client.producers.renewing import Renewal
from bus.client.sending.confirms import error_of
from bus.domain.ordering.chain import check_takeover
from bus.errors import (
    AccessDenied,
    BusError,
    InvalidMessage,
    LeaseLost,
    NotLeader,
    ReceiverUnavailable,
    SpoolClosed,
    SpoolFailed,
)

if TYPE_CHECKING:
    from bus.client.outbox import Outbox

PAUSE: Final = 1.0
"""Seconds between two requests for a lease."""
_TAKEN: Final = 409
_TOO_MANY: Final = 429
_FIRST_SERVER_ERROR: Final = 500


class Lease:
    """A granted lease: messages stored under it are sent in order, with no other producer's messages in between.

    It ends for this process when it is closed, when a receiver refuses a message because the lease was given up, and
    with the process's spool. Any thread may use it.

    Parameters
    ----------
    replace
        Gives up an outbox whose disk failed.
    renewal
        Of a lease that another producer may take over.
    """

    def __init__(
        self, outbox: Outbox, code: str, epoch: int, replace: Callable[[Outbox], None], renewal: Renewal | None = None
    ) -> None:
        self.code = code
        self.epoch = epoch
        self._outbox = outbox
        self._replace = replace
        self._renewal = renewal
        self._is_closed = False

    def check(self) -> None:
        """Raise ``NotLeader`` when it is lost, and ``SpoolClosed`` when it was closed."""
        if self._is_closed:
            raise SpoolClosed(f"this sender to {self.code!r} was closed", hint="take the lease anew: bus.sender(...)")
        if self._outbox.is_foreign:
            raise NotLeader(f"the process that this one was forked from has the lease of {self.code!r}")
        if self._outbox.is_abandoned:
            raise NotLeader(
                f"the disk failed under the lease of {self.code!r}; what is left on it is sent first",
                hint="take the lease anew: bus.sender(...)",
            )
        if (lost := self._outbox.confirms.lost(self.code, self.epoch)) is not None:
            raise LeaseLost(str(lost), hint=lost.hint)

    def expect(self, message_id: str) -> Future[str]:
        """Return a future that ends once a message is accepted or refused (`Confirms.expect`)."""
        return self._outbox.confirms.expect(message_id)

    def forget(self, message_id: str) -> None:
        """Wait for it no more."""
        self._outbox.confirms.forget(message_id)

    def store(self, prepared: Sequence[PreparedMessage]) -> None:
        """Store messages, all or none, durably; raises as `check`, and ``SpoolError``."""
        self.check()
        try:
            self._outbox.append(prepared)
        except SpoolFailed:
            self._replace(self._outbox)
            raise

    def close(self, timeout: float) -> bool:
        """Have it released once all that was stored is accepted; return whether that was within ``timeout`` seconds.

        What is left is sent all the same, by this process or the next one that uses the root, and then it is released.
        """
        self._is_closed = True
        is_released = not self._outbox.is_foreign and self._outbox.release(self.code, timeout)
        if is_released and self._renewal is not None:
            self._renewal.stop()
        return is_released


class LeaseRequest:
    """Asks for a lease, as often as `attempt` is called; for one thread at a time.

    The directory says on disk that it may have it before anybody is asked, and until it is released.

    Raises
    ------
    NotLeader
        This process sends alone to the destination already.
    SpoolFailed
        The disk does not take that it may have the lease.
    """

    def __init__(
        self,
        outbox: Outbox,
        options: Options,
        code: str,
        replace: Callable[[Outbox], None],
        takeover_after: float | None = None,
    ) -> None:
        self._takeover_after = 0.0 if takeover_after is None else check_takeover(takeover_after)
        self._outbox = outbox
        self._options = options
        self._code = code
        self._replace = replace
        self._receivers = Receivers(options)
        outbox.marker.begin(code)

    def attempt(self) -> Lease:
        """Ask once.

        Raises
        ------
        NotLeader
            Another producer has it.
        ReceiverUnavailable
            No receiver said who has it.
        AccessDenied, InvalidMessage
            It is never given.
        """
        answer = self._ask(self._receivers)
        if answer.is_done:
            epoch = msgspec.json.decode(answer.body, type=_LeaseAnswer).epoch
            return Lease(self._outbox, self._code, epoch, self._replace, self._renewal(epoch))
        reason = answer.reason
        if answer.status == _TAKEN:
            self._outbox.sweep()  # it may be gone, and have left its directory here
            raise NotLeader(str(reason), hint=reason.hint)
        if answer.status >= _FIRST_SERVER_ERROR or answer.status in (0, _TOO_MANY):
            raise ReceiverUnavailable(
                f"no receiver gives the lease of {self._code!r} now: {reason}",
                hint=reason.hint or "try again, or give it time: bus.sender(..., wait=30)",
                status=answer.status,
            )
        raise error_of(reason)

    def _ask(self, receivers: Receivers, epoch: int = 0) -> Answer:
        asked = {"owner": self._outbox.marker.owner, "takeover_after": self._takeover_after, "epoch": epoch}
        # A receiver of an earlier version reads the owner alone.
        content = msgspec.json.encode({name: value for name, value in asked.items() if value})
        return receivers.ask(self._code, "POST", f"/v1/producers/{self._code}", content)

    def _renewal(self, epoch: int) -> Renewal | None:
        """Return the renewal of the lease until it is released or lost, or the process ends; None if none is needed."""
        if not self._takeover_after:
            return None
        options = replace(self._options, timeout=min(self._options.timeout, self._takeover_after / 2))
        receivers = Receivers(options)
        outbox, code = self._outbox, self._code

        def has_ended() -> bool:
            return outbox.has_ended or code not in outbox.marker.codes

        return Renewal(partial(self._ask, receivers, epoch), receivers.close, has_ended, self._takeover_after)

    def give_up(self, error: BaseException) -> None:
        """Have it released, if it may have been given."""
        if isinstance(error, (AccessDenied, InvalidMessage)):
            self._outbox.marker.forget(self._code)
        else:
            self._outbox.release(self._code, 0)

    def close(self) -> None:
        """Give up the connections."""
        self._receivers.close()


class _LeaseAnswer(msgspec.Struct):
    epoch: int


def is_worth_waiting(error: BusError, end: float | None) -> bool:
    """Whether to ask again after an error, ``PAUSE`` seconds later; ``end`` in monotonic seconds, None for never."""
    return error.retriable and (end is None or time.monotonic() < end)
