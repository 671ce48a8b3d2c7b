"""Ends clients of aiokafka within a deadline: their own ``stop`` waits for brokers that may never answer."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Coroutine
from typing import Any, Final

from aiokafka import errors as kafka

_log = logging.getLogger(__name__)
_LAST_WAIT: Final = 1.0
_ROUNDS: Final = 5
_ROUND: Final = 0.2


async def stop_producer(producer: Any, within: float) -> None:
    """Close a producer after at most so many seconds; records that are not sent by then are dropped."""
    if await _stop(producer.stop(), within):
        return
    _drop_unsent(producer._message_accumulator)  # noqa: SLF001 - flushing could wait without end
    await _end([producer._sender.sender_task, producer.client._sync_task], producer.client)  # noqa: SLF001


async def stop_consumer(consumer: Any, within: float) -> None:
    """Leave the group and close a consumer after at most so many seconds; then its session runs out."""
    if await _stop(consumer.stop(), within):
        return
    coordinator, fetcher = consumer._coordinator, consumer._fetcher  # noqa: SLF001
    tasks = [consumer._client._sync_task]  # noqa: SLF001
    if coordinator is not None:
        tasks += [coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task]  # noqa: SLF001
    if fetcher is not None:
        tasks += [fetcher._fetch_task, *fetcher._pending_tasks]  # noqa: SLF001
    await _end(tasks, consumer._client)  # noqa: SLF001


def _drop_unsent(accumulator: Any) -> None:
    """Fail the batches that were not sent, and retrieve each exception, since no caller waits for them any more."""
    batches = [*itertools.chain.from_iterable(accumulator._batches.values()), *accumulator._pending_batches]  # noqa: SLF001
    accumulator.fail_all(kafka.ProducerClosed())
    for batch in batches:
        for waiter in (batch.future, batch._drain_waiter):  # noqa: SLF001
            if waiter.done() and not waiter.cancelled():
                waiter.exception()


async def _stop(stopping: Coroutine[Any, Any, None], within: float) -> bool:
    """Whether the client's own way to stop came to an end."""
    task = asyncio.ensure_future(stopping)
    try:
        await asyncio.wait({task}, timeout=within)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        await asyncio.wait({task}, timeout=_LAST_WAIT)
        return False
    if task.cancelled():
        return False
    if (error := task.exception()) is not None:
        _log.debug("kafka: a client did not stop cleanly: %r", error)
        return False
    return True


async def _end(tasks: list[asyncio.Task[Any] | None], client: Any) -> None:
    """End a client's background tasks, and its connections."""
    disconnect(client)
    running = [task for task in tasks if task is not None]
    left = set(running)
    for _ in range(_ROUNDS):  # a task that waits for another one passes the first cancellation on
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=_ROUND)
    disconnect(client)  # one of them may just have been connecting
    for task in running:
        if task.done() and not task.cancelled():
            task.exception()


def disconnect(client: Any) -> None:
    """Close the connections of an ``AIOKafkaClient`` at once, which fails the requests on them."""
    for connection in list(client._conns.values()):  # noqa: SLF001
        connection.close()
