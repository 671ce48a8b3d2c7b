"""The SDK for event loops."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Self

from bus.client.network.awaited import sent_straight
from bus.client.producers.aio import AsyncProducer
from bus.client.spooling.writer import Writer
from bus.client.sync import CLOSE_SECONDS, Bus
from bus.client.tracing import sending
from bus.errors import SpoolClosed, SpoolError

_SLICE: Final = 0.25
"""Seconds after which a cancelled wait for the network leaves its thread."""


class AsyncBus:
    """`Bus` with its names awaited; it takes the same arguments, and no call blocks the loop.

    `send` checks and encodes on the loop (microseconds); one thread stores all that waits in one transaction, so tasks
    share an fsync however many they are. A pool of threads would share it among as many callers as it has threads,
    and a spool on the loop would need a second daemon and die with its loop.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._bus = Bus(*args, **kwargs)
        self._writer: Writer | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        destination: str,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        deliver_at: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the receiver calls it
        idempotency_key: str | None = None,
    ) -> str:
        """Store a message and return its id, as `Bus.send`; durable when this returns.

        Cancelling the wait leaves it open whether the message is sent.
        """
        with sending(destination, headers) as span:
            prepared = self._bus.prepare(
                destination,
                message,
                biz_id=biz_id,
                key=key,
                routing_key=routing_key,
                headers=headers,
                content_type=content_type,
                deliver_at=deliver_at,
                id=id,
                idempotency_key=idempotency_key,
            )
            span.prepared(prepared)
            try:
                await self._present_writer().store(prepared)
            except SpoolClosed:
                raise
            except SpoolError as refusal:
                (failure,) = await sent_straight(self._bus.straight, [prepared], refusal)
                if failure is not None:
                    raise failure from None
            return prepared.id

    def sender(
        self, destination: str, *, wait: float | None = 0.0, takeover_after: float | None = None
    ) -> AsyncProducer:
        """Return a sender that takes the lease of a strictly ordered destination when its ``async with`` begins.

        It is `Bus.sender` otherwise.
        """
        return AsyncProducer(self._bus.prepare, lambda: self._bus.asking(destination, takeover_after), wait)

    async def start(self) -> None:
        """Start the daemon before the first `send`; see `Bus.start`."""
        await asyncio.to_thread(self._bus.start)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the same names as Bus
        """Wait until the receiver has everything that was sent before this call; see `Bus.flush`."""
        outbox = self._bus.present()
        if outbox is None:
            return True
        before = self._bus.now()
        end = math.inf if timeout is None else time.monotonic() + timeout
        outbox.hurry()
        while True:
            left = min(max(0.0, end - time.monotonic()), _SLICE)
            if await asyncio.to_thread(outbox.wait_sent, before, left):
                return True
            if time.monotonic() >= end:
                return False

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109
        """Store the messages that are being sent, then stop as `Bus.close`; may be called twice."""
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None and writer.pid == os.getpid():
            await asyncio.to_thread(writer.close)
        await asyncio.to_thread(self._bus.close, timeout)

    @property
    def pending(self) -> int:
        """How many messages of this process wait to be taken by the receiver."""
        return self._bus.pending

    @property
    def rejected(self) -> int:
        """Number of messages that this process keeps because the receiver rejected them permanently."""
        return self._bus.rejected

    @property
    def sent_straight(self) -> int:
        """How many messages of this process the receiver took straight from `send`, since the disk refused them."""
        return self._bus.sent_straight

    def _present_writer(self) -> Writer:
        if self._closed:
            raise SpoolClosed("the bus was closed", hint="make a new AsyncBus")
        writer = self._writer
        if writer is None or writer.pid != os.getpid():
            writer = self._writer = Writer(self._bus)
        return writer
