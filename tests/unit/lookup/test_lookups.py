"""Answers to lookups: merged, kept for a moment, given once for all who ask together, and kept when nobody answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bus.domain.routing.answers import Answer
from bus.domain.routing.rooms import Access, Route
from bus.testing.clock import ManualClock
from lookup.lookups import FRESH, KEPT, Lookups
from lookup.nsqlookupd import LookupUnavailable
from lookup.query import MalformedQuery, Query, read_query
from lookup.replies import Replies
from tests.harness.waiting import until

QUERY = Query("orders")
WRITE = Query("orders", Access.WRITE, with_meta=True)


def peer(host: str) -> dict[str, Any]:
    return {"broadcast_address": host, "tcp_port": 4150}


def fork(host: str, partitions: int = 1) -> Answer:
    nodes = {str(number): peer(host) for number in range(partitions)}
    return Answer(("c",), (peer(host),), nodes, {"partition_num": partitions})


def stock(host: str) -> Answer:
    return Answer(("c",), (peer(host),))


NONE = Answer(refusal="TOPIC_NOT_FOUND")


class FakeCluster:
    """Answers as it is told, when it is let."""

    def __init__(self, answer: Answer | None, *, is_fork: bool = False) -> None:
        self.answer = answer
        self.is_fork = is_fork
        self.is_settling = False
        self.name = "one"
        self.asked = 0
        self.let = asyncio.Event()
        self.let.set()

    async def lookup(self, *_: object, **__: object) -> Answer:
        self.asked += 1
        await self.let.wait()
        if self.answer is None:
            raise LookupUnavailable("it is away")
        return self.answer


class World:
    def __init__(self, **clusters: FakeCluster) -> None:
        self.clock = ManualClock()
        self.clusters = clusters
        self.routes: dict[str, Route] = {"orders": Route(("a",), tuple(clusters))}
        self.lookups = Lookups(self.routes.get, lambda: self.clusters, self.clock)  # type: ignore[arg-type]

    async def get(self, query: Query = QUERY) -> tuple[int, Any, dict[bytes, bytes]]:
        reply = (await self.answer(query)).plain
        return reply.status, json.loads(reply.body), dict(reply.fields)

    async def answer(self, query: Query = QUERY) -> Replies:
        told: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        self.lookups.begin(query, lambda replies: None if told.done() else told.set_result(replies))
        return await told

    async def hosts(self, query: Query = QUERY) -> list[str]:
        _, content, _ = await self.get(query)
        return [one["broadcast_address"] for one in content["producers"]]


@asynccontextmanager
async def world(**clusters: FakeCluster) -> AsyncIterator[World]:
    made = World(**clusters)
    task = asyncio.ensure_future(made.lookups.run())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_all_clusters_of_a_topic_answer_consumers_and_one_answers_producers() -> None:
    async with world(a=FakeCluster(stock("a")), b=FakeCluster(stock("b"))) as w:
        assert await w.hosts() == ["a", "b"]
        assert await w.hosts(WRITE) == ["a"]
        assert w.clusters["b"].asked == 1


async def test_a_cluster_that_fails_is_left_out_and_named() -> None:
    async with world(a=FakeCluster(stock("a")), b=FakeCluster(None)) as w:
        status, content, fields = await w.get()
        assert status == 200
        assert [one["broadcast_address"] for one in content["producers"]] == ["a"]
        assert fields[b"bus-lookup-missing"] == b"b"


async def test_partitions_of_the_first_cluster_are_kept_for_a_while_when_it_fails() -> None:
    first, second = FakeCluster(fork("a"), is_fork=True), FakeCluster(fork("b", 2), is_fork=True)
    async with world(a=first, b=second) as w:
        assert (await w.get())[1]["partitions"] == {"0": peer("a")}
        first.answer = None
        await w.clock.advance(KEPT)
        status, content, fields = await w.get()
        assert (status, content["partitions"], content["meta"]) == (200, {"0": peer("a")}, {"partition_num": 1})
        assert [one["broadcast_address"] for one in content["producers"]] == ["a", "b"]
        assert fields[b"bus-lookup-missing"] == b"a"
        await w.clock.advance(FRESH)
        _, content, _ = await w.get()
        assert content["partitions"] == {}
        assert "meta" not in content
        assert [one["broadcast_address"] for one in content["producers"]] == ["b"]


async def test_when_all_fail_the_last_good_answer_is_given_marked_and_then_503() -> None:
    a, b = FakeCluster(stock("a")), FakeCluster(stock("b"))
    async with world(a=a, b=b) as w:
        assert await w.hosts() == ["a", "b"]
        b.answer = None
        await w.clock.advance(FRESH)
        assert await w.hosts() == ["a"]
        a.answer = None
        await w.clock.advance(10)
        status, content, fields = await w.get()
        assert [one["broadcast_address"] for one in content["producers"]] == ["a", "b"]  # what lacks nobody is kept
        assert (status, fields[b"bus-lookup-stale"], fields[b"bus-lookup-missing"]) == (200, b"11", b"a,b")
        await w.clock.advance(KEPT)
        status, content, _ = await w.get()
        assert status == 503
        assert "a, b" in content["message"]


async def test_a_topic_that_one_cluster_does_not_have_while_the_other_is_away_is_not_gone() -> None:
    a, b = FakeCluster(NONE), FakeCluster(stock("b"))
    async with world(a=a, b=b) as w:
        assert await w.hosts() == ["b"]
        b.answer = None
        await w.clock.advance(FRESH)
        assert await w.hosts() == ["b"]
        assert (await w.get(Query("none")))[0] == 404
    async with world(a=FakeCluster(NONE), b=FakeCluster(None)) as w:
        status, content, fields = await w.get()
        assert (status, content, fields[b"bus-lookup-missing"]) == (404, {"message": "TOPIC_NOT_FOUND"}, b"b")


async def test_who_asks_together_is_answered_by_one_question() -> None:
    a = FakeCluster(stock("a"))
    async with world(a=a) as w:
        a.let.clear()
        waiting = [asyncio.ensure_future(w.hosts()) for _ in range(20)]
        await until(lambda: a.asked, what="it is asked")
        gone = asyncio.ensure_future(w.hosts())
        await asyncio.sleep(0)
        gone.cancel()  # one client that does not wait takes nothing from the others
        await asyncio.wait([gone])
        a.let.set()
        assert await asyncio.gather(*waiting) == [["a"]] * 20
        assert a.asked == 1


async def test_an_answer_is_given_again_for_a_moment_and_not_over_another_route() -> None:
    a, b = FakeCluster(stock("a")), FakeCluster(stock("b"))
    async with world(a=a, b=b) as w:
        await w.hosts(WRITE)
        a.answer = stock("a2")
        await w.clock.advance(FRESH - 0.01)
        assert await w.hosts(WRITE) == ["a"]
        assert w.lookups.fresh(WRITE) is not None
        w.routes["orders"] = Route(("b",), ("a", "b"))
        assert w.lookups.fresh(WRITE) is None
        assert await w.hosts(WRITE) == ["b"]
        w.routes["orders"] = Route(("a",), ("a", "b"))
        assert await w.hosts(WRITE) == ["a2"]


async def test_an_answer_of_another_route_does_not_stand_in() -> None:
    a, b = FakeCluster(stock("a")), FakeCluster(None)
    async with world(a=a, b=b) as w:
        assert await w.hosts(WRITE) == ["a"]
        w.routes["orders"] = Route(("b",), ("a", "b"))
        assert (await w.get(WRITE))[0] == 503


async def test_nobody_may_produce_while_a_topic_moves() -> None:
    a = FakeCluster(fork("a", 3), is_fork=True)
    async with world(a=a) as w:
        await w.get(WRITE)
        w.routes["orders"] = Route((), ("a",))
        status, content, _ = await w.get(WRITE)
        assert status == 200
        assert content == {"channels": [], "producers": [], "partitions": {}, "meta": {"partition_num": 3}}
        a.is_fork = False
        assert (await w.get(WRITE))[1] == {"channels": [], "producers": []}


async def test_who_does_not_accept_version_1_gets_the_forks_envelope() -> None:
    async with world(a=FakeCluster(fork("a"), is_fork=True)) as w:
        enveloped = (await w.answer()).enveloped
        assert json.loads(enveloped.body)["data"]["partitions"] == {"0": peer("a")}
        assert json.loads(enveloped.body)["status_code"] == 200
        w.clusters["a"].answer = NONE
        await w.clock.advance(FRESH)
        enveloped = (await w.answer()).enveloped
        assert enveloped.status == 500
        assert json.loads(enveloped.body) == {"status_code": 500, "status_txt": "TOPIC_NOT_FOUND", "data": None}
        w.clusters["a"].answer = None
        await w.clock.advance(601)
        enveloped = (await w.answer()).enveloped
        assert (enveloped.status, json.loads(enveloped.body)["status_code"]) == (503, 503)
    async with world(a=FakeCluster(stock("a"))) as w:
        replies = await w.answer()
        assert replies.enveloped == replies.plain


async def test_nsqlookupds_that_came_back_may_know_less_than_they_did() -> None:
    a = FakeCluster(stock("a"))
    async with world(a=a) as w:
        assert await w.hosts() == ["a"]
        for answer in (NONE, Answer(), stock("a2")):
            a.answer, a.is_settling = answer, True
            await w.clock.advance(FRESH)
            assert "a" in await w.hosts()
        await w.clock.advance(KEPT)
        assert await w.hosts() == ["a2"]  # what it knew before is not kept for ever by what it says now
        a.is_settling = False
        await w.clock.advance(FRESH)
        assert await w.hosts() == ["a2"]


async def test_an_answer_without_nodes_does_not_stand_for_who_is_away() -> None:
    a, b = FakeCluster(stock("a")), FakeCluster(Answer(partitions={}, meta={"partition_num": 0}), is_fork=True)
    async with world(a=a, b=b) as w:
        assert await w.hosts() == ["a"]
        a.answer = None
        await w.clock.advance(FRESH)
        _, content, fields = await w.get()
        assert [one["broadcast_address"] for one in content["producers"]] == ["a"]
        assert fields[b"bus-lookup-stale"] == b"1"


async def test_an_empty_answer_takes_the_place_of_no_good_one() -> None:
    a = FakeCluster(fork("a", 2), is_fork=True)
    async with world(a=a) as w:
        assert await w.hosts() == ["a"]
        a.answer = Answer(partitions={}, meta={"partition_num": 2})  # its leader is dead
        await w.clock.advance(FRESH)
        assert await w.hosts() == []
        a.answer = None  # and now its nsqlookupds
        await w.clock.advance(FRESH)
        assert await w.hosts() == ["a"]


async def test_strangers_do_not_push_good_copies_out() -> None:
    first, second = FakeCluster(fork("a"), is_fork=True), FakeCluster(stock("b"))
    async with world(a=first, b=second) as w:
        await w.get()
        first.answer, second.answer = NONE, NONE
        for number in range(10_001):
            w.routes[f"n{number}"] = w.routes["orders"]
            await w.get(Query(f"n{number}"))
        first.answer, second.answer = None, stock("b")
        await w.clock.advance(FRESH)
        assert (await w.get())[1]["partitions"] == {"0": peer("a")}


async def test_a_cluster_that_is_elsewhere_now_has_said_nothing_yet() -> None:
    a = FakeCluster(fork("a"), is_fork=True)
    async with world(a=a) as w:
        assert await w.hosts() == ["a"]
        w.clusters["a"] = FakeCluster(None, is_fork=True)
        assert w.lookups.fresh(QUERY) is None
        assert (await w.get())[0] == 503


async def test_a_defect_costs_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeCluster):
        async def lookup(self, *_: object, **__: object) -> Answer:
            raise ZeroDivisionError

    async with world(a=Broken(None)) as w:
        assert (await w.get())[0] == 500
        assert "ZeroDivisionError" in caplog.text
        w.clusters["a"] = FakeCluster(stock("a"))
        assert await w.hosts() == ["a"]


async def test_a_topic_without_a_route_is_not_found() -> None:
    async with world(a=FakeCluster(stock("a"))) as w:
        assert (await w.get(Query("other")))[0] == 404


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (b"topic=orders", QUERY),
        (b"topic=orders&access=r", QUERY),
        (b"topic=orders&access=w&metainfo=true", WRITE),
        (b"metainfo=false&x=1&topic=a%2Fb", Query("a/b")),
    ],
)
def test_a_question_is_read(text: bytes, query: Query) -> None:
    assert read_query(text) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "MISSING_ARG_TOPIC"),
        (b"topic=", "MISSING_ARG_TOPIC"),
        (b"topic=a&access=x", "INVALID_ARG_ACCESS"),
        (b"&".join([b"topic=a"] * 30), "INVALID_REQUEST"),
        (b"topic=\xff", "INVALID_REQUEST"),
    ],
)
def test_a_question_without_sense_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(MalformedQuery, match=message):
        read_query(text)
