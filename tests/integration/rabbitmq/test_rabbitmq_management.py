"""The management plugin of a real node, and how little it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from bus.domain.health.vitals import BrokerFigures, NodeFigures
from bus.errors import TransportRefused, TransportUnavailable
from bus.observing.brokers import INTERVAL
from bus.transports.rabbitmq import parse_cluster
from bus.transports.rabbitmq.management import Management, parse_management
from bus.transports.rabbitmq.management.api import MOST_PAGES, PAGE
from tests.integration.rabbitmq.rabbitmq_world import somebody_else
from tests.servers import need
from tests.servers.rabbitmq import RabbitmqServer

KIB = 1024


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitmqServer]:
    """A node with the plugin."""
    home, management = need("rabbitmq"), need("rabbitmq_management")
    folder = tmp_path_factory.mktemp("management")
    quick = ["collect_statistics_interval = 300"]
    with RabbitmqServer(home, folder, name="managed", settings=quick, management=management) as server:
        yield server


@pytest.fixture
async def plugin(node: RabbitmqServer) -> AsyncIterator[Management]:
    async with asking(f"http://127.0.0.1:{node.http_port}", node) as found:
        yield found


@asynccontextmanager
async def asking(where: str, node: RabbitmqServer) -> AsyncIterator[Management]:
    found = Management("rabbitmq-primary", parse_management(where, parse_cluster(node.url, "url"), "test"))
    try:
        yield found
    finally:
        await found.close()


async def test_a_node_that_is_well_tells_so(plugin: Management, node: RabbitmqServer) -> None:
    await eventually_told(plugin, lambda found: found.nodes[0].memory > 0)
    (one,) = (await plugin.look()).nodes
    assert (one.name, one.is_running, one.partitions) == (f"{node.name}@localhost", True, ())
    assert (one.memory_alarm, one.disk_alarm) == (False, False)
    assert 0 < one.memory < one.memory_limit
    assert 0 < one.disk_limit < one.disk_free


async def test_only_the_queues_of_the_bus_are_counted(plugin: Management, node: RabbitmqServer) -> None:
    async with somebody_else(node.url) as channel:
        quorum = {"x-queue-type": "quorum"}
        ours = await channel.declare_queue("pier/counted/billing", durable=True, arguments=quorum)
        theirs = await channel.declare_queue("pierre", durable=True)
        for queue in (ours, ours, ours, theirs):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name)
        held = await ours.get()
        await eventually_told(plugin, lambda found: (found.queues, found.ready, found.unacked) == (1, 2, 1))
        await held.ack()
        await channel.queue_delete(ours.name)
        await channel.queue_delete(theirs.name)


async def test_alarms_of_memory_and_disk_are_told_and_who_is_held_by_them(
    plugin: Management, node: RabbitmqServer
) -> None:
    async with somebody_else(node.url) as channel:
        try:
            await asyncio.to_thread(node.eval, "vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1000000})")
            await asyncio.to_thread(node.eval, "rabbit_disk_monitor:set_disk_free_limit(1000000000000000)")
            held = asyncio.create_task(channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key="nobody"))
            await eventually_told(plugin, lambda found: all_of(found.nodes[0]) and found.in_flow == 1)
        finally:
            await asyncio.to_thread(node.eval, "vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
            await asyncio.to_thread(node.eval, "rabbit_disk_monitor:set_disk_free_limit(64000000)")
        await eventually_told(plugin, lambda found: not any_of(found.nodes[0]))
        await asyncio.gather(held, return_exceptions=True)


def all_of(node: NodeFigures) -> bool:
    return node.memory_alarm and node.disk_alarm


def any_of(node: NodeFigures) -> bool:
    return node.memory_alarm or node.disk_alarm


async def test_a_look_is_few_requests_and_few_bytes_however_many_queues_there_are(node: RabbitmqServer) -> None:
    async with somebody_else(node.url) as channel, relay(node.http_port) as counted:
        queues = [await channel.declare_queue(f"pier/many/{n}") for n in range(PAGE + 10)]
        async with asking(f"http://127.0.0.1:{counted.port}", node) as plugin:
            assert (await plugin.look()).queues == len(queues)
        for queue in queues:
            await queue.delete()
    # Nodes, connections, and a page for each 500 queues.
    looks = 60 / INTERVAL
    assert counted.requests * looks == 8 <= (2 + MOST_PAGES) * looks
    assert counted.bytes * looks < 96 * KIB


async def test_a_login_without_the_tag_is_refused_with_what_to_do(node: RabbitmqServer) -> None:
    node.eval('rabbit_auth_backend_internal:add_user(<<"plain">>, <<"x">>, <<"test">>)')
    async with asking(f"http://plain:x@127.0.0.1:{node.http_port}", node) as plugin:
        with pytest.raises(TransportRefused, match="refuses user plain") as refused:
            await plugin.look()
    assert "monitoring" in refused.value.hint


async def test_the_next_host_is_asked_when_one_is_away(node: RabbitmqServer) -> None:
    async with asking(f"http://127.0.0.1:9,127.0.0.1:{node.http_port}", node) as plugin:
        assert (await plugin.look()).nodes
    async with asking("http://127.0.0.1:9", node) as plugin:
        with pytest.raises(TransportUnavailable, match=r"127\.0\.0\.1:9"):
            await plugin.look()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "unexpected response"),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", "answers 500"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b" " * 9_999_999, "more than 524288 bytes"),
        (b"nonsense\r\n\r\n", "does not answer"),
    ],
)
async def test_what_is_no_answer_of_the_plugin_is_refused(node: RabbitmqServer, answer: bytes, error: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asking(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", node) as plugin:
        with pytest.raises((TransportRefused, TransportUnavailable), match=error):
            await plugin.look()


async def eventually_told(plugin: Management, is_so: Callable[[BrokerFigures], bool]) -> None:
    """Look until the plugin, which counts now and then, tells it."""
    async with asyncio.timeout(60):
        while not is_so(await plugin.look()):  # noqa: ASYNC110 - an answer, not an event
            await asyncio.sleep(0.1)


class Counted:
    """What went through a relay."""

    def __init__(self) -> None:
        self.port = self.requests = self.bytes = 0


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[Counted]:
    """Give a port that leads to another one, and count."""
    counted = Counted()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            counted.requests += data.count(b"GET /")
            counted.bytes += len(data)
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    counted.port = server.sockets[0].getsockname()[1]
    async with server:
        yield counted
