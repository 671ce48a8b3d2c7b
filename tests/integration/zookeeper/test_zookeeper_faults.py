"""A server that is killed, stands still, is wiped or away, and lost answers: an error in time, then all is right."""

from __future__ import annotations

import asyncio
import struct
import threading

import pytest
from kazoo.protocol.serialization import Delete

from bus.coordinators.zookeeper import ZookeeperDocuments, connection
from bus.errors import Conflict, StoreUnavailable
from bus.ports.store import Document
from tests.integration.zookeeper.counting import LONG, Counting, all_are_refused, all_go_on, insist
from tests.integration.zookeeper.relay import Fate, relaying
from tests.servers.zookeeper import ZookeeperServer
from tests.servers.zookeeper_fixtures import PATIENCE, place_on

WORD = b"=c/=k"


@pytest.mark.usefixtures("quick")
async def test_a_kill_loses_nothing_that_was_acknowledged(own: ZookeeperServer) -> None:
    documents = ZookeeperDocuments(place_on(own.address))
    counting = [Counting(documents, f"k{number}") for number in range(4)]
    async with asyncio.TaskGroup() as tasks:
        for each in counting:
            tasks.create_task(each.run())
        for _ in range(2):
            await all_go_on(counting)
            await all_are_refused(counting, own.kill)
            await asyncio.to_thread(own.start)
        await all_go_on(counting)
        for each in counting:
            each.over = True
    for each in counting:
        await each.check(documents)
    await documents.close()


@pytest.mark.usefixtures("quick")
async def test_a_server_that_stands_still_longer_than_the_session(own: ZookeeperServer) -> None:
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    own.pause()
    try:
        async with asyncio.timeout(LONG):
            calls = (
                documents.get("c", "k"),
                documents.list("c"),
                documents.put("c", "k", b"2", version=1),
                documents.delete("c", "k2"),
            )
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results] == [StoreUnavailable] * len(calls)
            await asyncio.sleep(2 * connection.SESSION)  # it is the fault that lasts so long
            with pytest.raises(StoreUnavailable, match="nothing was sent"):
                await documents.put("c", "new", b"1", version=0)
    finally:
        own.resume()
    assert await insist(lambda: documents.get("c", "new")) is None
    found = await insist(lambda: documents.get("c", "k"))
    assert found in {Document("k", 1, b"1"), Document("k", 2, b"2")}
    assert await insist(lambda: documents.put("c", "k", b"3")) > found.version
    assert (await insist(lambda: documents.get("c", "k"))).value == b"3"
    await documents.close()


async def test_a_server_that_was_wiped_knows_no_session(own: ZookeeperServer) -> None:
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    await asyncio.to_thread(own.wipe)
    assert await insist(lambda: documents.get("c", "k")) is None
    with pytest.raises(Conflict):
        await documents.put("c", "k", b"2", version=1)
    assert await documents.put("c", "k", b"1", version=0) == 1
    await documents.close()


@pytest.mark.usefixtures("quick")
async def test_it_may_be_opened_before_its_server_is_up(own: ZookeeperServer) -> None:
    await asyncio.to_thread(own.stop)
    documents = ZookeeperDocuments(place_on(own.address))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"cannot be reached \(write c/k\); nothing was sent") as caught:
            await documents.put("c", "k", b"1", version=0)
        assert caught.value.retriable
    await asyncio.to_thread(own.start)
    assert await insist(lambda: documents.put("c", "k", b"1"))
    assert (await insist(lambda: documents.get("c", "k"))).value == b"1"
    await documents.close()


@pytest.mark.usefixtures("quick")
async def test_it_closes_while_the_server_stands_still_and_leaves_no_thread(own: ZookeeperServer) -> None:
    before = {*threading.enumerate()}
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    own.pause()
    try:
        asking = asyncio.create_task(documents.get("c", "k"))
        async with asyncio.timeout(LONG):
            await documents.close()
            with pytest.raises(StoreUnavailable):
                await asking
            with pytest.raises(StoreUnavailable):
                await documents.get("c", "k")
    finally:
        own.resume()
    assert [thread.name for thread in {*threading.enumerate()} - before if "asyncio" not in thread.name] == []


async def test_a_call_is_cancelled_at_once_while_the_server_stands_still(
    own: ZookeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = ZookeeperDocuments(place_on(own.address))
    await insist(lambda: documents.put("c", "k", b"1"))
    for name in ("DEADLINE", "REACH"):
        monkeypatch.setattr(connection, name, 2 * LONG)
    own.pause()
    try:
        asking = [asyncio.create_task(documents.get("c", "k")) for _ in range(3)]
        await asyncio.sleep(0)
        for each in asking:
            each.cancel()
        _, late = await asyncio.wait(asking, timeout=LONG)
        assert not late
        assert all(each.cancelled() for each in asking)
    finally:
        own.resume()
    assert await insist(lambda: documents.get("c", "k")) == Document("k", 1, b"1")
    await documents.close()


@pytest.mark.parametrize("fate", [Fate.ANSWER_KEPT, Fate.QUESTION_KEPT])
async def test_a_change_whose_answer_is_lost_was_made_or_not(
    place: str, documents: ZookeeperDocuments, fate: Fate
) -> None:
    assert await documents.put("c", "k", b"1") == 1
    async with relaying(place) as relay:
        behind = ZookeeperDocuments(relay.address)
        await behind.get("c", "k")
        relay.meet(WORD, fate)
        writing = asyncio.create_task(behind.put("c", "k", b"2", version=1))
        await relay.met.wait()
        if fate is Fate.ANSWER_KEPT:
            await changed(documents)
        relay.hang_up()
        with pytest.raises(StoreUnavailable, match="whether it was done is not known") as caught:
            await writing
        assert "read the document before you repeat the change" in caught.value.hint
        if fate is Fate.ANSWER_KEPT:
            with pytest.raises(Conflict, match="has version 2, not 1"):
                await insist(lambda: behind.put("c", "k", b"3", version=1))
            assert await behind.get("c", "k") == Document("k", 2, b"2")
        else:
            assert await insist(lambda: behind.put("c", "k", b"3", version=1)) == 2
            assert await documents.get("c", "k") == Document("k", 2, b"3")
        await behind.close()


async def changed(documents: ZookeeperDocuments) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await documents.get("c", "k") == Document("k", 2, b"2"):
                return
            await asyncio.sleep(0.01)


def deleting(place: str) -> bytes:
    """Return how the question to delete the document begins: its kind, and the path with its length before it."""
    path = b"/" + place.partition("/")[2].encode() + b"/" + WORD
    return struct.pack(">ii", Delete.type, len(path)) + path


@pytest.mark.parametrize("doing", ["put", "put any", "delete"])
async def test_a_change_that_comes_late_changes_nothing_that_others_made(
    place: str, documents: ZookeeperDocuments, doing: str
) -> None:
    assert await documents.put("c", "k", b"1") == 1
    async with relaying(place) as relay:
        behind = ZookeeperDocuments(relay.address)
        assert await behind.get("c", "k") == Document("k", 1, b"1")
        calls = {
            "put": (lambda: behind.put("c", "k", b"late", version=1), b"late"),
            "put any": (lambda: behind.put("c", "k", b"late"), b"late"),
            "delete": (lambda: behind.delete("c", "k"), deleting(place)),
        }
        call, question = calls[doing]
        relay.meet(question, Fate.QUESTION_KEPT)
        changing = asyncio.ensure_future(call())
        await relay.met.wait()
        relay.hang_up()
        with pytest.raises(StoreUnavailable, match="whether it was done is not known"):
            await changing
        assert await documents.put("c", "k", b"theirs", version=1) == 2
        await relay.pass_on()
        assert await documents.get("c", "k") == Document("k", 2, b"theirs")
        await behind.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_answer_that_kazoo_does_not_know_ends_its_thread_and_another_is_begun(
    place: str, documents: ZookeeperDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await documents.put("c", "k", b"1") == 1
    monkeypatch.setattr(connection, "REACH", 0.5)  # a call that finds the thread while it ends waits for nothing
    async with relaying(place) as relay:
        behind = ZookeeperDocuments(relay.address)
        assert await insist(lambda: behind.get("c", "k")) == Document("k", 1, b"1")
        relay.meet(WORD, Fate.ANSWER_SPOILED)
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await behind.get("c", "k")
        assert await insist(lambda: behind.get("c", "k")) == Document("k", 1, b"1")
        await behind.close()
