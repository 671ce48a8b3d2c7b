"""The poster beside a bare loop of the same technique: ``python -m bench.poster [--json]``.

A sink in another process answers every request with 200. The bare loop writes one constant request and waits
for one parsed answer: no time-outs, no limits, no headers per request, no result record, no pool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection as Pipe
from typing import cast

import httptools
import uvloop

from bus.posters.http import HttpPoster
from bus.security.egress import EgressPolicy

IN_FLIGHT = 64
BODY = b'{"order": 42, "text": "' + b"x" * 1000 + b'"}'
ANSWER = b"HTTP/1.1 200 OK\r\nserver: sink\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CONSTANT = {"authorization": "Bearer abcdefghijklmnopqrstuvwxyz"}
HEADERS = [
    ("content-type", "application/json"),
    ("webhook-id", "01936b2e-7c2f-7abc-8def-0123456789ab"),
    ("webhook-timestamp", "1764000000"),
    ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
    ("bus-destination", "order.cancelled"),
    ("bus-biz-id", "42"),
    ("bus-attempt", "1"),
    ("bus-sent-at", "2026-11-21T09:00:00.000Z"),
]


class Sink(asyncio.Protocol):
    """Answers once for each request; every request has the same length after the first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.missing = 0
        self.size = 0

    def data_received(self, data: bytes) -> None:
        if not self.size:
            head, _, _ = data.partition(b"\r\n\r\n")
            length = int(head.rpartition(b"content-length: ")[2])
            self.size = self.missing = len(head) + 4 + length
        self.missing -= len(data)
        if self.missing == 0:
            self.missing = self.size
            self.transport.write(ANSWER)


def sink(pipe: Pipe) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


class Bare(asyncio.Protocol):
    """The technique and nothing else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.loop = asyncio.get_running_loop()
        self.parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.waiter.set_result(self.parser.get_status_code())

    async def post(self, request: bytes) -> int:
        self.waiter = self.loop.create_future()
        self.transport.write(request)
        return await self.waiter


async def bare(port: int, seconds: float) -> float:
    head = "".join(f"{name}: {value}\r\n" for name, value in [*CONSTANT.items(), *HEADERS])
    head = f"POST /hook HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{head}content-length: {len(BODY)}\r\n\r\n"
    request = head.encode() + BODY

    async def connect() -> Callable[[], Awaitable[object]]:
        _, protocol = await asyncio.get_running_loop().create_connection(Bare, "127.0.0.1", port)
        return lambda: protocol.post(request)

    return await rate([await connect() for _ in range(IN_FLIGHT)], seconds)


async def poster(port: int, seconds: float) -> float:
    http = HttpPoster(EgressPolicy(allow_loopback=True))
    target = http.target(f"http://127.0.0.1:{port}/hook", CONSTANT)
    result = await rate([lambda: http.post(target, HEADERS, BODY, 10.0)] * IN_FLIGHT, seconds)
    await http.close()
    return result


async def rate(posts: list[Callable[[], Awaitable[object]]], seconds: float) -> float:
    """Run the posts side by side, each again and again, and return how many ended in a second."""
    done = 0
    begun = time.perf_counter()
    until = begun + seconds

    async def work(post: Callable[[], Awaitable[object]]) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await post()
            done += 1

    await asyncio.gather(*(work(post) for post in posts))
    return done / (time.perf_counter() - begun)


def measure(seconds: float, rounds: int) -> dict[str, float]:
    """Alternate the two, so that both see the same machine; return medians."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=sink, args=(theirs,), daemon=True)
    server.start()
    port = mine.recv()
    pairs = [(uvloop.run(bare(port, seconds)), uvloop.run(poster(port, seconds))) for _ in range(rounds)]
    server.terminate()
    server.join()
    return {
        "bare_per_second": statistics.median(pair[0] for pair in pairs),
        "poster_per_second": statistics.median(pair[1] for pair in pairs),
        "ratio": statistics.median(pair[1] / pair[0] for pair in pairs),
        "extra_microseconds": statistics.median(1e6 / pair[1] - 1e6 / pair[0] for pair in pairs),
        "in_flight": IN_FLIGHT,
        "body_bytes": len(BODY),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    figures = measure(given.seconds, given.rounds)
    if given.json:
        print(json.dumps(figures))
    else:
        text = "bare {bare_per_second:,.0f}/s  poster {poster_per_second:,.0f}/s  ratio {ratio:.2f}"
        print((text + "  extra {extra_microseconds:.1f} us a request").format(**figures))


if __name__ == "__main__":
    main()
