"""Progress of channels as nsqds report it: a stalled consumer, none, and a paused channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus.domain.health.progress import Progress, Verdict
from bus.ports.transport import HeldMessages
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.nsq import NsqTransport
from tests.harness.hurried_clock import HurriedClock
from tests.integration.nsq.nsq_world import config, eventually, opened, publish, receive, subscribed
from tests.servers import nsq

HASTE = 150


@asynccontextmanager
async def watching(server: nsq.NsqdServer, code: str) -> AsyncIterator[NsqTransport]:
    """Give a process that consumes nothing, and for which a minute is over in less than half a second."""
    async with opened(config([server]), MemoryQuarantine(), HurriedClock(HASTE)) as found:
        await found.ensure(*subscribed(code, "billing"))
        yield found


def progress(found: NsqTransport, code: str) -> Progress:
    return found.progress()[code, "billing"]


async def test_a_consumer_that_does_not_get_on_is_seen_by_others(shared: nsq.NsqServers, code: str) -> None:
    server = shared.nsqds[0]
    async with opened(config([server], msg_timeout=30.0)) as transport, watching(server, code) as others:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await publish(transport, code, range(5))
        held = await receive(consumer, 5, ack=False)
        await eventually(lambda: progress(others, code).verdict is Verdict.STALLED)
        assert len(progress(others, code).where) == 1
        consumer.ack(held)
        await eventually(lambda: progress(others, code).verdict is Verdict.WELL)


async def test_a_channel_without_a_consumer_has_stopped(shared: nsq.NsqServers, code: str) -> None:
    async with watching(shared.nsqds[0], code) as found:
        await publish(found, code, range(5))
        await eventually(lambda: progress(found, code).verdict is Verdict.STOPPED)
        assert not progress(found, code).is_paused


async def test_a_channel_that_somebody_paused_says_so_once_something_waits(shared: nsq.NsqServers, code: str) -> None:
    server = shared.nsqds[0]
    async with watching(server, code) as found:
        await asyncio.to_thread(server.call, "/channel/pause", topic=code, channel="billing")
        assert progress(found, code).verdict is Verdict.WELL
        await publish(found, code, range(5))
        await eventually(lambda: progress(found, code).is_paused)
        await asyncio.to_thread(server.call, "/channel/unpause", topic=code, channel="billing")
        await eventually(lambda: not progress(found, code).is_paused)


async def test_what_a_channel_holds_is_told_apart(own: nsq.NsqServers, code: str) -> None:
    async with opened(config(own.nsqds, msg_timeout=30.0)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(5))
        await eventually(lambda: transport.held()[code, "billing"] == HeldMessages(5, 0, 0))
        consumer = await transport.consume(code, "billing")
        held = await receive(consumer, 5, ack=False)
        await eventually(lambda: transport.held()[code, "billing"] == HeldMessages(0, 5, 0))
        consumer.ack(held)
        await eventually(lambda: transport.held()[code, "billing"] == HeldMessages())
