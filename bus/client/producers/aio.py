"""Exclusive sending to a strictly ordered destination, for event loops."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Self, TypeVar

from bus.client.producers.lease import PAUSE, Lease, LeaseRequest, is_worth_waiting
from bus.client.producers.producer import CONFIRM_SECONDS, RELEASE_SECONDS, Preparer
from bus.client.sending.confirms import unconfirmed
from bus.client.spooling.writer import Writer
from bus.client.tracing import sending
from bus.errors import BusError, SpoolClosed

_Found = TypeVar("_Found")
_SLICE: Final = 0.25
"""Seconds after which a cancelled wait for the release leaves its thread."""


class AsyncProducer:
    """`bus.client.producers.producer.Producer` with its names awaited; no call blocks the loop.

    The lease is taken when its ``async with`` begins. Any number of tasks may send, and they share an fsync; the order
    is that of the calls.
    """

    def __init__(self, prepare: Preparer, asking: Callable[[], LeaseRequest], wait: float | None) -> None:
        self._prepare = prepare
        self._asking = asking
        self._wait = wait
        self._lease: Lease | None = None
        self._writer: Writer | None = None

    async def __aenter__(self) -> Self:
        self._lease = await _take(self._asking, self._wait)
        self._writer = Writer(self._lease)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def destination(self) -> str:
        """The code that it sends to."""
        return self._taken().code

    @property
    def epoch(self) -> int:
        """Which lease it is: each later one has a greater epoch."""
        return self._taken().epoch

    async def send(
        self,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        timeout: float | None = CONFIRM_SECONDS,  # noqa: ASYNC109 - the same names as Producer
    ) -> str:
        """Store a message, wait until a group of brokers has confirmed it, and return its id; see `Producer.send`.

        Cancelling the wait leaves it open whether the message is sent.
        """
        lease, writer = self._taken(), self._writer
        lease.check()
        if writer is None:
            raise SpoolClosed("this sender was closed", hint="take the lease anew: bus.sender(...)")
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
                stored = writer.store(prepared)
                await stored
                async with asyncio.timeout(timeout):
                    return await asyncio.wrap_future(confirmed)
            except TimeoutError:
                raise unconfirmed(prepared.id, f"no answer within {timeout:g} s") from None
            finally:
                lease.forget(prepared.id)

    async def close(self, timeout: float = RELEASE_SECONDS) -> bool:  # noqa: ASYNC109
        """Wait until all that was stored is accepted, and let others send; see `Producer.close`."""
        lease, writer = self._lease, self._writer
        self._writer = None
        if lease is None:
            return True
        await _finished(partial(_end, lease, writer))  # however this is cancelled, it is released then
        end = time.monotonic() + timeout
        while True:
            left = min(max(0.0, end - time.monotonic()), _SLICE)
            if await asyncio.to_thread(lease.close, left):
                return True
            if time.monotonic() >= end:
                return False

    def _taken(self) -> Lease:
        if self._lease is None:
            raise SpoolClosed("this sender has not begun", hint="use it in: async with bus.sender(...) as sender")
        return self._lease


def _end(lease: Lease, writer: Writer | None) -> None:
    if writer is not None:
        writer.close()
    lease.close(0)


async def _take(asking: Callable[[], LeaseRequest], wait: float | None) -> Lease:
    """Request a lease until it is granted; release one that is granted after the caller stopped waiting."""
    end = None if wait is None else time.monotonic() + wait
    asked = await _begun(asking)
    try:
        lease = await _given(asked, end)
        await _finished(asked.close)  # cancelled here, the task has the lease, and nothing would release it
    except BaseException as error:
        await _finished(partial(_give_up, asked, error))
        raise
    return lease


async def _given(asked: LeaseRequest, end: float | None) -> Lease:
    while True:
        try:
            return await _finished(asked.attempt)
        except BusError as error:
            if not is_worth_waiting(error, end):
                raise
        await asyncio.sleep(max(0.0, min(PAUSE, math.inf if end is None else end - time.monotonic())))


def _give_up(asked: LeaseRequest, error: BaseException) -> None:
    asked.give_up(error)
    asked.close()


async def _begun(asking: Callable[[], LeaseRequest]) -> LeaseRequest:
    found: list[LeaseRequest] = []
    try:
        await _finished(lambda: found.append(asking()))
    except asyncio.CancelledError as error:
        for asked in found:
            await _finished(partial(_give_up, asked, error))
        raise
    return found[0]


async def _finished(work: Callable[[], _Found]) -> _Found:
    """Run work in a thread; a cancelled task still waits for its end, since the thread cannot be stopped."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
