"""Calls from process to process, and the secret that they show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from bus.bootstrap.opening import peer_poster
from bus.cluster.lease import Promise, Question
from bus.cluster.member import Member
from bus.cluster.peers import MESSAGES, ROOM, Alive, PeerKey, Peers
from bus.domain.delivery.concurrency_shares import View
from bus.errors import PeerUnavailable, StoreUnavailable
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore


class CountedStore(MemoryStore):
    """Counts reads; may be down."""

    reads = 0
    down = False

    async def get(self, collection: str, key: str) -> Any:
        self.reads += 1
        if self.down:
            raise StoreUnavailable("down")
        return await super().get(collection, key)


@pytest.fixture
def store() -> CountedStore:
    return CountedStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def loaded(store: MemoryStore, clock: ManualClock) -> PeerKey:
    key = PeerKey(store, clock)
    await key.load()
    return key


async def test_all_processes_have_the_secret_that_the_first_one_made(store: CountedStore, clock: ManualClock) -> None:
    first, second = PeerKey(store, clock), PeerKey(store, clock)
    assert not first.opens(first.header.encode())
    await asyncio.gather(first.load(), second.load())
    assert first.header == second.header
    assert len(first.header) > 40
    assert first.opens(second.header.encode())
    for wrong in (None, b"", b"Bearer ", b"Bearer wrong", "Bearer ü".encode()):
        assert not first.opens(wrong)


async def test_a_newer_secret_is_looked_for_once_a_second_at_most(store: CountedStore, clock: ManualClock) -> None:
    key = await loaded(store, clock)
    await store.delete("settings", "peer-key")
    newer = await loaded(store, clock)
    await clock.advance(2)
    assert await key.is_current(newer.header.encode())
    reads = store.reads
    for _ in range(100):
        assert not await key.is_current(b"Bearer wrong")
    assert store.reads == reads
    await clock.advance(2)
    assert not await key.is_current(b"Bearer wrong")
    assert store.reads == reads + 1


Handler = Callable[[bytes], Awaitable[bytes | None]]


@asynccontextmanager
async def peer(handler: Handler) -> AsyncIterator[Member]:
    """Serve one request a connection; the handler returns status and body, or None to hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await handler(head)
        if answer is not None:
            status, _, body = answer.partition(b" ")
            length = str(len(body)).encode()
            writer.write(
                b"HTTP/1.1 " + status + b" x\r\nconnection: close\r\ncontent-length: " + length + b"\r\n\r\n" + body
            )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def at(url: str) -> Member:
    return Member(owner="a", node="a", url=url, roles=("dispatcher",), version="1", started_at=0)


@pytest.fixture
async def peers(store: CountedStore, clock: ManualClock) -> AsyncIterator[Peers]:
    poster = peer_poster()
    yield Peers(await loaded(store, clock), poster)
    await poster.close()


def says(*answers: bytes | None) -> tuple[Handler, list[bytes]]:
    left, heads = list(answers), []

    async def handler(head: bytes) -> bytes | None:
        heads.append(head)
        return left.pop(0)

    return handler, heads


async def test_a_call_shows_the_secret_and_returns_the_answer(peers: Peers, store: CountedStore) -> None:
    handler, heads = says(b"200 answer", b"200 room")
    async with peer(handler) as member:
        assert await peers.call(member, MESSAGES, [b"x"]) == b"answer"
        assert await peers.ask(member, ROOM) == b"room"
    secret = (await store.get("settings", "peer-key")).value
    assert b"Bearer " + secret in heads[0]
    assert heads[0].startswith(b"POST /internal/v1/messages ")


async def test_after_a_401_the_secret_is_read_again(peers: Peers, store: CountedStore) -> None:
    await store.put("settings", "peer-key", b"newer")
    handler, heads = says(b"401 no", b"200 yes")
    async with peer(handler) as member:
        assert await peers.call(member, MESSAGES, []) == b"yes"
    assert b"Bearer newer" in heads[1]


async def test_after_a_401_without_a_store_nothing_was_done(peers: Peers, store: CountedStore) -> None:
    store.down = True
    handler, _ = says(b"401 no")
    async with peer(handler) as member:
        with pytest.raises(PeerUnavailable, match="cannot be read") as caught:
            await peers.call(member, MESSAGES, [])
    assert not caught.value.indeterminate


@pytest.mark.parametrize(
    ("answer", "indeterminate"), [(b"400 no", False), (b"404 no", False), (b"500 no", True), (None, True)]
)
async def test_an_answer_says_whether_it_may_have_acted(
    peers: Peers, answer: bytes | None, indeterminate: bool
) -> None:
    handler, _ = says(answer)
    async with peer(handler) as member:
        with pytest.raises(PeerUnavailable) as caught:
            await peers.call(member, MESSAGES, [])
    assert caught.value.indeterminate is indeterminate


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1", "ftp://127.0.0.1", "", "http://127.0.0.1:99999"])
async def test_an_address_that_nobody_has_is_nobody(peers: Peers, url: str) -> None:
    with pytest.raises(PeerUnavailable) as caught:
        await peers.call(at(url), MESSAGES, [])
    assert not caught.value.indeterminate
    assert await peers.lives(at(url)) is (False if url == "http://127.0.0.1:1" else None)
    assert await peers.promise(at(url), Question("a", at("http://b"), ())) is None


async def test_a_question_to_a_process_that_hangs_has_a_short_deadline(peers: Peers) -> None:
    async def hang(_: bytes) -> bytes | None:
        await release.wait()
        return None

    release = asyncio.Event()
    async with peer(hang) as member:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(PeerUnavailable):
            await peers.ask(member, ROOM)
        assert await peers.lives(member) is None
        assert asyncio.get_running_loop().time() - begun < 4
        release.set()
        await asyncio.sleep(0)


async def test_who_answers_with_his_own_name_lives(peers: Peers) -> None:
    alive = b"200 " + msgspec.json.encode(Alive("ok", "a"))
    handler, heads = says(alive, b"503 no")
    async with peer(handler) as member:
        assert member.owner == "a"
        assert await peers.lives(member)
        assert await peers.lives(member) is None
    assert heads[0].startswith(b"GET /healthz ")


@pytest.mark.parametrize(
    ("answer", "lives"),
    [(msgspec.json.encode(Alive("ok", "another")), False)]
    + [(other, None) for other in (b"{}", b"", b"<html>", b'{"status": "ok"}', b"\xff")],
)
async def test_another_one_at_the_url_does_not_answer_for_a_process(
    peers: Peers, answer: bytes, lives: bool | None
) -> None:
    handler, _ = says(b"200 " + answer)
    async with peer(handler) as member:
        assert await peers.lives(member) is lives


@pytest.mark.parametrize(
    ("answer", "promise"),
    [(b"200 \x92\xc3\x90", Promise(True, ())), (b"200 \xc2", None), (b"200 \xc1", None), (b"404 no", None)],
)
async def test_a_promise_is_what_a_process_says_it_is(peers: Peers, answer: bytes, promise: Promise | None) -> None:
    handler, heads = says(answer)
    async with peer(handler) as member:
        assert await peers.promise(member, Question("a", at("http://b"), (View(("a", "b")),))) == promise
    assert heads[0].startswith(b"POST /internal/v1/promise ")


async def test_a_call_is_not_made_again_when_a_kept_connection_is_closed(peers: Peers) -> None:
    """Its process may have acted on it, and another life of it would not recognise the second one."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(1)
            writer.write(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\nok")
            heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        member = at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await peers.call(member, MESSAGES, []) == b"ok"
        with pytest.raises(PeerUnavailable) as caught:
            await peers.call(member, MESSAGES, [])
    assert caught.value.indeterminate
    assert len(heads) == 2
