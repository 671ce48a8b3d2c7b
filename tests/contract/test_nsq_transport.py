"""The NSQ transport keeps the contract: on two nsqds found through two nsqlookupds, and on a single one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from bus.clock import SystemClock
from bus.testing.contracts.transport import TransportContract
from bus.testing.quarantine import ForbiddenQuarantine
from bus.testing.writes import DESTINATION
from bus.transports.nsq import NsqConfig, NsqTransport, parse_lookupd, parse_nsqd
from tests.harness.http import PLAIN
from tests.servers import nsq

QUICK = {"stats_interval": 0.05, "lookup_interval": 0.5}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nsq.Places]:
    with nsq.somewhere(tmp_path_factory.mktemp("nsq")) as places:
        yield places


@asynccontextmanager
async def opened(config: NsqConfig) -> AsyncIterator[NsqTransport]:
    transport = NsqTransport(config, ForbiddenQuarantine(), SystemClock(), lambda: 0.5)
    running = asyncio.create_task(transport.run())
    try:
        yield transport
    finally:
        running.cancel()
        await asyncio.wait([running])
        await transport.close()


def forget(places: nsq.Places) -> None:
    """Delete the topics everywhere; from the nsqlookupds first, for an nsqd takes a new topic's channels from them."""
    lookupds = [str(address) for address in parse_lookupd(places.lookupd)]
    nsqds = [f"{tcp.host}:{http or tcp.port + 1}" for tcp, http in parse_nsqd(places.nsqd)]
    with httpx.Client(**PLAIN) as client:
        for server in (*lookupds, *nsqds):
            for topic in (DESTINATION, "other", "nowhere"):
                client.post(f"http://{server}/topic/delete", params={"topic": topic})


class TestNsqTransportOnTwo(TransportContract):
    @pytest.fixture
    async def transport(self, places: nsq.Places) -> AsyncIterator[NsqTransport]:
        forget(places)
        async with opened(NsqConfig(lookupd=parse_lookupd(places.lookupd), **QUICK)) as transport:
            yield transport


class TestNsqTransportOnOne(TransportContract):
    @pytest.fixture
    async def transport(self, places: nsq.Places) -> AsyncIterator[NsqTransport]:
        forget(places)
        async with opened(NsqConfig(nsqd=parse_nsqd(places.nsqd)[:1], **QUICK)) as transport:
            yield transport
