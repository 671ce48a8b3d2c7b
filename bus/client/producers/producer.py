"""Exclusive sending to a strictly ordered destination, for threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self

from bus.client.options import PreparedMessage
from bus.client.producers.lease import PAUSE, Lease, LeaseRequest, is_worth_waiting
from bus.client.sending.confirms import unconfirmed
from bus.client.tracing import sending
from bus.errors import BusError

CONFIRM_SECONDS: Final = 30.0
RELEASE_SECONDS: Final = 5.0


class Preparer(Protocol):
    """Validates a message (`bus.client.Bus.prepare`)."""

    def __call__(
        self,
        destination: str,
        message: Any,
        *,
        biz_id: str | None,
        key: str | None,
        routing_key: str | None,
        headers: Mapping[str, str] | None,
        content_type: str | None,
        producer: int,
    ) -> PreparedMessage:
        """Return the record with a new id, or raise ``InvalidMessage``."""
        ...


class Producer:
    """Holds the lease of a strictly ordered destination; made by `bus.client.Bus.sender`.

    Any number of threads may send; the order is that in which their messages are stored. Close it, or use it in a
    ``with`` statement: until then no other producer sends to the destination.
    """

    def __init__(self, prepare: Preparer, lease: Lease) -> None:
        self._prepare = prepare
        self._lease = lease

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def destination(self) -> str:
        """The code that it sends to."""
        return self._lease.code

    @property
    def epoch(self) -> int:
        """Which lease it is: each later one has a greater epoch."""
        return self._lease.epoch

    def send(
        self,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        timeout: float | None = CONFIRM_SECONDS,
    ) -> str:
        """Store a message, wait until a group of brokers has confirmed it, and return its id.

        It is on this machine's disk (fsync) before it is sent, and so is never lost. It takes no other way than that:
        what the disk refuses is not sent. The arguments are those of `bus.client.Bus.send`.

        Parameters
        ----------
        timeout
            Seconds to wait for the confirm; None for as long as it takes.

        Raises
        ------
        Unconfirmed
            It is stored, and was not confirmed in time. It is still sent: do not send it again.
        NotLeader
            The lease is lost. The message is in the ``rejected`` stream when the loss was found by sending it, and is
            not stored when the loss was found before. It is not accepted, unless an earlier attempt that got no answer
            was.
        InvalidMessage, ReceiverRefused
            It can never be accepted; it is in the ``rejected`` stream if the receiver found that.
        SpoolFull, SpoolFailed
            The disk refuses it, and it is not sent.
        SpoolClosed
            The sender, or its bus, was closed.
        """
        lease = self._lease
        lease.check()
        with sending(lease.code, headers) as span:
            prepared = self._prepare(
                lease.code,
                message,
                biz_id=biz_id,
                key=key,
                routing_key=routing_key,
                headers=headers,
                content_type=content_type,
                producer=lease.epoch,
            )
            span.prepared(prepared)
            confirmed = lease.expect(prepared.id)
            try:
                lease.store([prepared])
                return confirmed.result(timeout)
            except TimeoutError:
                raise unconfirmed(prepared.id, f"no answer within {timeout:g} s") from None
            finally:
                lease.forget(prepared.id)

    def close(self, timeout: float = RELEASE_SECONDS) -> bool:
        """Wait until all that was stored is accepted, and let others send; may be called twice.

        Returns
        -------
        bool
            Whether others may send; False after ``timeout`` seconds. What is left is sent, and the lease released
            then, by this process or by the next one that uses the same ``spool`` root, or a sweeper.
        """
        return self._lease.close(timeout)


def take(asking: Callable[[], LeaseRequest], wait: float | None) -> Lease:
    """Request a lease until it is granted, for ``wait`` seconds; None: no limit. Raises as `LeaseRequest.attempt`."""
    end = None if wait is None else time.monotonic() + wait
    asked = asking()
    try:
        while True:
            try:
                return asked.attempt()
            except BusError as error:
                if not is_worth_waiting(error, end):
                    raise
            time.sleep(PAUSE if end is None else max(0.0, min(PAUSE, end - time.monotonic())))
    except BaseException as error:
        asked.give_up(error)
        raise
    finally:
        asked.close()
