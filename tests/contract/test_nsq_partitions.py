"""The NSQ transport keeps the contract on a cluster of Youzan's fork, whose topics have partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bus.ports.transport import Transport
from bus.testing.contracts.transport import TransportContract, ensure, publish, receive
from bus.testing.writes import DESTINATION, message
from bus.transports.nsq import NsqConfig, NsqTransport, parse_lookupd
from tests.contract.test_nsq_transport import QUICK, opened
from tests.doubles.youzan.running import YouzanDouble


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YouzanDouble]:
    with YouzanDouble(tmp_path_factory.mktemp("youzan")) as double:
        yield double


class TestNsqTransportOnPartitions(TransportContract):
    @pytest.fixture
    async def transport(self, double: YouzanDouble) -> AsyncIterator[NsqTransport]:
        for topic in {one["topic"] for one in double.state()["partitions"]}:
            double.ask_lookupd("POST", "/topic/delete", topic=topic, partition="**")
        async with opened(NsqConfig(lookupd=parse_lookupd(double.lookups[0]), **QUICK)) as transport:
            yield transport

    async def test_a_big_body_arrives_byte_for_byte(self, transport: Transport) -> None:
        """Its nsqds take 1 MiB and no more, as by default: the envelope has to find room in that."""
        await ensure(transport, "billing")
        big = message(body=bytes(range(256)) * 4000)
        await publish(transport, big)
        (found,) = await receive(await transport.consume(DESTINATION, "billing"))
        assert found.message == big


class TestNsqTransportOnOnePartition(TestNsqTransportOnPartitions):
    @pytest.fixture
    async def transport(self, tmp_path: Path) -> AsyncIterator[NsqTransport]:
        with YouzanDouble(tmp_path, nsqds=1, lookupds=1) as alone:
            config = NsqConfig(lookupd=parse_lookupd(alone.lookups[0]), partitions=1, **QUICK)
            async with opened(config) as transport:
                yield transport
