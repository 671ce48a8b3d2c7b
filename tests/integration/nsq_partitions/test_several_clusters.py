"""A proxy in front of two clusters: partitions of the one, nsqds of the other only in ``producers``; both are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from bus.domain.routing.answers import merge, merge_nodes, read_answer
from bus.domain.routing.listlookup import listed_alone
from bus.transports.nsq import NsqConfig, parse_lookupd
from tests.doubles.youzan.httpd import Answer, HttpServer, Request, json_answer
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.harness.waiting import until
from tests.integration.nsq_partitions.partition_world import config, first_deliveries, opened, outgoing, publish, wanted

ACCEPT = {"Accept": "application/vnd.nsq; version=1.0"}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[YouzanDouble]:
    with YouzanDouble(tmp_path, nsqds=1, lookupds=1) as double:
        yield double


@asynccontextmanager
async def _proxied(first: YouzanDouble, second: YouzanDouble) -> AsyncIterator[NsqConfig]:
    """Give settings with a proxy that produces to the first cluster and consumes from both."""
    port = free_port()

    async def ask(double: YouzanDouble, request: Request) -> httpx.Response:
        url = f"http://127.0.0.1:{double.lookupds[1]}{request.path}"
        async with httpx.AsyncClient(**PLAIN) as client:
            return await client.get(url, params=request.query, headers=ACCEPT)

    async def answer(request: Request) -> Answer:
        if request.path == "/listlookup":
            return json_answer(listed_alone("127.0.0.1", port))
        if request.path == "/nodes":
            return json_answer(merge_nodes([(await ask(one, request)).json() for one in (first, second)]))
        if request.query.get("access") == "w":
            found = await ask(first, request)
            return Answer(found.status_code, found.content)
        answers = [read_answer((await ask(one, request)).content) for one in (first, second)]
        return Answer(200, json.dumps(merge(answers, None).content).encode())

    server = HttpServer(answer, port)
    await server.start()
    try:
        yield config(first)._replace(lookupd=parse_lookupd(f"127.0.0.1:{port}"))
    finally:
        await server.stop()


async def test_all_partitions_of_both_clusters_are_read_and_one_cluster_is_published_to(
    shared: YouzanDouble, other: YouzanDouble, code: str
) -> None:
    for double in (shared, other):
        double.create_topic(code, partitions=2)
        double.create_channel(code, "billing")
    async with opened(config(other)) as elsewhere:
        await elsewhere.ensure(*wanted(code))
        await publish(elsewhere, outgoing(code, range(40)))
    async with _proxied(shared, other) as settings, opened(settings) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(40, 80)))
        await first_deliveries(await transport.consume(code, "billing"), range(80))
    assert [sum(one["messages"] for one in double.partitions(code)) for double in (shared, other)] == [40, 40]
    assert _subscribed(other) >= {(code, "billing", "0"), (code, "billing", "1")}


async def test_an_nsqd_elsewhere_is_read_once_it_has_said_what_it_leads(
    shared: YouzanDouble, other: YouzanDouble, code: str
) -> None:
    for double in (shared, other):
        double.create_topic(code, partitions=2)
        double.create_channel(code, "billing")
    async with opened(config(other)) as elsewhere:
        await elsewhere.ensure(*wanted(code))
        await publish(elsewhere, outgoing(code, range(40)))
    other.hang_nsqd(1)
    async with _proxied(shared, other) as settings, opened(settings._replace(timeout=1.0)) as transport:
        consumer = await transport.consume(code, "billing")
        await until(lambda: transport._routes.layout(code).others, what="the nsqd is known")
        await asyncio.sleep(0.2)  # as long as a connection takes
        other.wake_nsqd(1)
        await first_deliveries(consumer, range(40))
    assert _subscribed(other) == {(code, "billing", "0"), (code, "billing", "1")}


def _subscribed(double: YouzanDouble) -> set[tuple[str, ...]]:
    return {tuple(one["params"]) for one in double.commands(1, "SUB")}
