"""Lookups at the nsqlookupds of a cluster, and the reasons to leave one out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bus.clock import SystemClock
from bus.domain.routing.rooms import Access
from lookup.cluster import Cluster
from lookup.nsqlookupd import LookupUnavailable, NsqlookupdClient
from tests.harness.waiting import until

GOOD = json.dumps({"producers": [{"broadcast_address": "a", "tcp_port": 1}]})
Answer = Callable[[str], tuple[int, str]]


class Server:
    """Answers every request by its path, and counts how many are asked at once."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.answer = answer
        self.port = port
        self.asked: list[str] = []
        self.now = self.most = 0
        self.delay = 0.0
        self._peers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for peer in self._peers:
            peer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, target, _ = head.decode().split(" ", 2)
                self.asked.append(f"{method} {target}")
                self.now += 1
                self.most = max(self.most, self.now)
                await asyncio.sleep(self.delay)
                self.now -= 1
                status, content = self.answer(target)
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\n\r\n{content}".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def stock(target: str) -> tuple[int, str]:
    if target.startswith("/listlookup"):
        return 404, '{"message": "NOT_FOUND"}'
    if "bad" in target:
        return 500, "panic"
    return 200, GOOD


@asynccontextmanager
async def cluster(*servers: Server) -> AsyncIterator[Cluster]:
    client = NsqlookupdClient("me", time.monotonic)
    for server in servers:
        await server.start()
    try:
        yield Cluster("a", [f"127.0.0.1:{server.port}" for server in servers], client, SystemClock(), lambda: 0.5)
    finally:
        await client.close()
        for server in servers:
            await server.stop()


async def ask(found: Cluster, topic: str = "t") -> list[str]:
    answer = await found.lookup(topic, Access.READ, with_meta=False)
    return [peer["broadcast_address"] for peer in answer.nodes]


async def test_a_question_that_fails_takes_no_answer_from_others() -> None:
    async with cluster(Server(stock), Server(stock)) as found:
        for _ in range(5):
            with pytest.raises(LookupUnavailable):
                await ask(found, "bad")
            assert "panic" in str(found.trouble)
            assert await ask(found) == ["a"]
        assert str(found.trouble) == ""


async def test_one_that_is_gone_is_not_asked_until_it_answers_a_probe() -> None:
    one, other = Server(stock), Server(stock)
    async with cluster(one, other) as found:
        assert await ask(found) == ["a"]
        await one.stop()
        assert await ask(found) == ["a"]
        assert [bool(str(trouble)) for trouble in found.troubles.values()] == [True, False]
        await one.start()
        running = asyncio.ensure_future(found.run())
        await until(lambda: not any(map(str, found.troubles.values())), within=10, what="it is asked again")
        running.cancel()


async def test_stock_nsqlookupds_that_were_started_anew_may_know_less() -> None:
    server = Server(stock)
    async with cluster(server) as found:
        assert await ask(found) == ["a"]
        assert not found.is_settling
        await server.stop()
        await server.start()  # so fast that nobody has missed it
        await until(lambda: found.is_settling, within=5, what="the end of its connection is seen")
        assert await ask(found) == ["a"]
        assert str(found.trouble) == ""


async def test_what_kind_it_is_is_taken_from_a_clear_answer_only() -> None:
    listed = {"lookupdleader": {"NodeIP": "127.0.0.1", "HttpPort": "0"}, "lookupdnodes": []}
    said: list[tuple[int, str]] = [(429, "{}")]
    server = Server(lambda target: said[0] if "listlookup" in target else stock(target))
    async with cluster(server) as found:
        with pytest.raises(LookupUnavailable):
            await found.change("POST", "/topic/create?topic=t", "")
        assert (found.is_fork, [one for one in server.asked if "create" in one]) == (None, [])
        listed["lookupdleader"]["HttpPort"] = str(server.port)  # type: ignore[index]
        said[0] = (200, json.dumps(listed))
        assert (await found.change("POST", "/topic/create?topic=t", "")).status == 200
        assert found.is_fork
        said[0] = (429, "{}")
        await found.change("POST", "/topic/create?topic=t", "")
        assert found.is_fork


async def test_a_change_that_not_all_have_made_tells_who_has() -> None:
    one, other = Server(stock), Server(stock)
    async with cluster(one, other) as found:
        await found.change("POST", "/topic/create?topic=t", "")
        await other.stop()
        with pytest.raises(LookupUnavailable, match=f"it may have made the change; answered by: 127.0.0.1:{one.port}"):
            await found.change("POST", "/topic/delete?topic=t", "")
        await other.start()


async def test_many_questions_at_once_wait_for_each_other() -> None:
    server = Server(stock)
    server.delay = 0.01
    async with cluster(server) as found:
        answers = await asyncio.gather(*(ask(found, f"t{number}") for number in range(300)))
        assert answers == [["a"]] * 300
        assert server.most <= 64
        server.delay = 0.3
        results = await asyncio.gather(*(ask(found, f"u{number}") for number in range(300)), return_exceptions=True)
        assert any(isinstance(result, LookupUnavailable) for result in results)
        assert str(found.trouble) == ""  # that is not its fault
        assert await ask(found) == ["a"]


async def test_a_topics_name_is_written_so_that_it_is_one() -> None:
    server = Server(stock)
    async with cluster(server) as found:
        await ask(found, "a&access=w b")
        assert server.asked == ["GET /lookup?topic=a%26access%3Dw%20b&access=r"]


async def test_somebody_else_on_its_port_is_no_nsqlookupd() -> None:
    server = Server(lambda target: (404, "") if target == "/ping" else stock(target))
    async with cluster(server) as found:
        assert not await found.answers()
        running = asyncio.ensure_future(found.run())
        await until(lambda: not found.is_up, within=5, what="it is left out")
        assert "/ping gives HTTP 404" in str(found.trouble)
        server.answer = lambda target: (200, "OK") if target == "/ping" else stock(target)
        assert await found.answers()
        await until(lambda: found.is_up, within=5, what="it is asked again")
        running.cancel()
