"""A client of ZooKeeper that neither answers nor fails is replaced; one whose server does not answer is kept."""

from __future__ import annotations

import threading

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from bus import call_watch
from bus.coordinators.zookeeper import ZookeeperDocuments, connection
from bus.errors import StoreUnavailable
from tests.harness.waiting import until
from tests.integration.zookeeper.counting import insist
from tests.servers.zookeeper import ZookeeperServer
from tests.servers.zookeeper_fixtures import place_on


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the exit codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(call_watch, "end_process", codes.append)
    monkeypatch.setattr(call_watch, "_replaced", {})
    return codes


@pytest.mark.usefixtures("quick")
async def test_a_client_whose_threads_hang_is_replaced(
    own: ZookeeperServer, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    monkeypatch.setattr(connection, "HANGS_AFTER", 1.0)
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    old, released = documents._connection._client, threading.Event()
    handler: SequentialThreadingHandler = old.handler
    handler.completion_queue.put(released.wait)  # the thread that hands answers on
    try:
        with pytest.raises(StoreUnavailable):
            await documents.get("c", "k")
        await until(lambda: documents._connection._client is not old, what="another client")
        assert (await insist(lambda: documents.get("c", "k"))).value == b"1"
    finally:
        released.set()
        await documents.close()
    assert not ended


@pytest.mark.usefixtures("quick")
async def test_a_paused_server_costs_no_client(
    own: ZookeeperServer, monkeypatch: pytest.MonkeyPatch, ended: list[int]
) -> None:
    monkeypatch.setattr(connection, "HANGS_AFTER", 6.0)  # longer than the shortest session of the server
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    old = documents._connection._client
    own.pause()
    try:
        with pytest.raises(StoreUnavailable):
            await documents.get("c", "k")
        await until(lambda: not documents._connection._connected.is_set(), what="the connection is given up")
        await documents._connection._call_watch.finish(within=10.0)
    finally:
        own.resume()
    assert documents._connection._client is old
    assert not call_watch.replaced()
    assert (await insist(lambda: documents.get("c", "k"))).value == b"1"
    await documents.close()
    assert not ended
