"""Waiters for the acceptance, or the final refusal, of a message."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock

from bus.client.network.http import Reason
from bus.client.spooling.line import Head
from bus.errors import (
    AccessDenied,
    BusError,
    InvalidDestination,
    InvalidMessage,
    LeaseLost,
    MessageTooLarge,
    ReceiverRefused,
    Unconfirmed,
)
from bus.http.problem import PRODUCER


class Confirms:
    """Reports to each waiting caller, by message id, whether a message was accepted; any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, Future[str]] = {}
        self._lost: dict[tuple[str, int], LeaseLost] = {}
        self._is_over = False

    def expect(self, message_id: str) -> Future[str]:
        """Return a future of the id under which a message is accepted, or of the error why it never is.

        The error is `Unconfirmed` when sending has ended. Call this before the message is stored, then `forget`.
        """
        future: Future[str] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._is_over:
                future.set_exception(unconfirmed(message_id, "nobody sends any more here"))
            else:
                self._waiting[message_id] = future
        return future

    @property
    def are_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def forget(self, message_id: str) -> None:
        """Wait no more."""
        self._pop(message_id)

    def lost(self, code: str, epoch: int) -> LeaseLost | None:
        """Return why a lease has ended, if it has."""
        return self._lost.get((code, epoch))

    def taken(self, message_id: str, accepted_id: str) -> None:
        """Report that a message was accepted, or found to repeat the one that has this id."""
        if (future := self._pop(message_id)) is not None:
            future.set_result(accepted_id)

    def refused(self, head: Head, reason: Reason) -> None:
        """Report that a message will never be accepted."""
        error = error_of(reason)
        if isinstance(error, LeaseLost):
            self._lost[head.destination, head.producer] = error
        if (future := self._pop(head.id)) is not None:
            future.set_exception(error)

    def renamed(self, before: str, after: str) -> None:
        """Note that a message has another id from now on."""
        with self._lock:
            if (future := self._waiting.pop(before, None)) is not None:
                self._waiting[after] = future

    def end(self) -> None:
        """Report to all waiting callers that sending has ended here."""
        with self._lock:
            self._is_over = True
            left, self._waiting = self._waiting, {}
        for message_id, future in left.items():
            future.set_exception(unconfirmed(message_id, "sending ended here"))

    def _pop(self, message_id: str) -> Future[str] | None:
        with self._lock:
            return self._waiting.pop(message_id, None)


def unconfirmed(message_id: str, why: str) -> Unconfirmed:
    """Return the error for a message that may or may not have been accepted."""
    return Unconfirmed(
        f"message {message_id} is not confirmed: {why}; it is kept on disk and is sent from there",
        hint="do not send it again; what becomes of it is in its trace",
        id=message_id,
    )


def error_of(reason: Reason) -> BusError:
    """Return the error for a permanent rejection."""
    said, hint, field = str(reason), reason.hint, reason.field
    match reason.status:
        case 401 | 403:
            return AccessDenied(said, hint=hint, status=reason.status)
        case 404:
            return InvalidDestination(said, hint=hint, field=field)
        case 409 if field == PRODUCER:
            return LeaseLost(said, hint=hint)
        case 413:
            return MessageTooLarge(said, hint=hint, field=field)
        case 422:
            return InvalidMessage(said, hint=hint, field=field)
    return ReceiverRefused(said, hint=hint, status=reason.status)
