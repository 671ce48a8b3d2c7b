"""The load generator of every benchmark: one process, kept connections, bodies of JSON with a sequence number.

``python -m bench.load --url URL --count 20000`` sends as fast as answers come (a closed loop over 64 connections);
``--rate 100`` sends on schedule instead. ``--batch 64`` sends ndjson batches. It prints one line of JSON, and writes
when each message was sent (monotonic seconds, one clock for all processes) with ``--times FILE``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

FIRST_SEQ = 1_000_000_000
RECONNECT_AFTER = 0.02
OK_STATUS = range(200, 300)


def body_of(seq: int, size: int) -> bytes:
    """Return a JSON body of ``size`` bytes that begins with its sequence number."""
    head = b'{"seq":%d,"pad":"' % seq
    return head + b"x" * (size - len(head) - 2) + b'"}'


@dataclass
class Plan:
    """What to send, and what came of it; the times are by message, 0.0 where nothing happened."""

    host: str
    port: int
    path: str
    count: int
    size: int
    batch: int
    destination: str
    first: int
    keys: int = 0

    def __post_init__(self) -> None:
        self.next = 0
        self.failed = 0
        self.unanswered = 0
        self.sent = array("d", bytes(8 * self.count))
        self.answered = array("d", bytes(8 * self.count))
        kind = "application/x-ndjson" if self.batch > 1 else "application/json"
        self._head = f"POST {self.path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\ncontent-type: {kind}\r\n".encode()
        self._line = b'{"destination":"%b","body":' % self.destination.encode()
        self._filler = body_of(FIRST_SEQ, self.size)[17:]

    @property
    def exhausted(self) -> bool:
        """Whether everything was sent."""
        return self.next >= self.count

    def take(self) -> tuple[int, int, bytes]:
        """Return the next request: its first message, its number of messages, its bytes."""
        start = self.next
        size = min(self.batch, self.count - start)
        self.next = start + size
        body = self._batch(start, size) if self.batch > 1 else self._body(start)
        key = b"bus-key: k%d\r\n" % ((self.first + start) % self.keys) if self.keys else b""
        return start, size, b"%b%bcontent-length: %d\r\n\r\n%b" % (self._head, key, len(body), body)

    def _body(self, index: int) -> bytes:
        return b'{"seq":%010d%b' % (self.first + index, self._filler)

    def _batch(self, start: int, size: int) -> bytes:
        return b"\n".join(self._line + self._body(index) + b"}" for index in range(start, start + size))


class Connection(asyncio.Protocol):
    """One kept connection with one request in flight."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._flight: tuple[int, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._parser = httptools.HttpResponseParser(self)
        self._load.idle(self)

    def send(self) -> None:
        """Send the next request."""
        assert self._transport is not None
        start, size, request = self._load.plan.take()
        self._flight = (start, size)
        self._accepted = 0
        now = time.monotonic()
        sent = self._load.plan.sent
        for index in range(start, start + size):
            sent[index] = now
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._accepted += body.count(b'"accepted"')

    def on_message_complete(self) -> None:
        assert self._flight is not None
        (start, size), self._flight = self._flight, None
        plan = self._load.plan
        whole = self._parser.get_status_code() in OK_STATUS and (plan.batch == 1 or self._accepted == size)
        if whole:
            now = time.monotonic()
            for index in range(start, start + size):
                plan.answered[index] = now
        else:
            plan.failed += size
        self._load.progressed(size)
        self._load.idle(self)

    def connection_lost(self, _: Exception | None) -> None:
        if self._flight is not None:
            self._load.plan.unanswered += self._flight[1]
            self._load.progressed(self._flight[1])
        self._load.lost(self)


class Load:
    """A number of connections that send a plan, as fast as answered or at a rate."""

    def __init__(self, plan: Plan, connections: int, rate: float | None) -> None:
        self.plan = plan
        self._rate = rate
        self._idle: deque[Connection] = deque()
        self._connections = connections
        self._due = 0
        self._open = plan.count
        self._done = asyncio.Event()
        self._connected_all = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Return when every message was answered or lost its connection."""
        for _ in range(self._connections):
            self._connect()
        if self._rate is not None:
            await self._pace(self._rate)
        await self._done.wait()

    def idle(self, connection: Connection) -> None:
        """Use a connection that has nothing in flight."""
        if self.plan.exhausted:
            return
        if self._rate is None:
            connection.send()
        elif self._due > 0:
            self._due -= 1
            connection.send()
        else:
            self._idle.append(connection)
            if len(self._idle) == self._connections:
                self._connected_all.set()

    def progressed(self, messages: int) -> None:
        """Count messages that have their answer or never will."""
        self._open -= messages
        if self._open <= 0:
            self._done.set()

    def lost(self, connection: Connection) -> None:
        """Replace a connection."""
        if connection in self._idle:
            self._idle.remove(connection)
        if not self.plan.exhausted:
            self._connect()

    def _connect(self) -> None:
        task = asyncio.ensure_future(self._connected())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connected(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.plan.exhausted:
            try:
                await loop.create_connection(lambda: Connection(self), self.plan.host, self.plan.port)
            except OSError:
                await asyncio.sleep(RECONNECT_AFTER)
            else:
                return

    async def _pace(self, rate: float) -> None:
        """Send message i at i / rate; one that finds no idle connection waits for the first."""
        await self._connected_all.wait()
        started = time.monotonic()
        for index in range(-(-self.plan.count // self.plan.batch)):
            wait = started + index / rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            if self._idle:
                self._idle.popleft().send()
            else:
                self._due += 1


def summary(plan: Plan) -> dict[str, object]:
    """Return what happened as JSON."""
    pairs = [(sent, done) for sent, done in zip(plan.sent, plan.answered, strict=True) if done]
    waits = sorted(done - sent for sent, done in pairs)
    first = min((sent for sent, _ in pairs), default=0.0)
    seconds = max((done for _, done in pairs), default=0.0) - first
    return {
        "accepted": len(pairs),
        "failed": plan.failed,
        "unanswered": plan.unanswered,
        "first": first,
        "seconds": seconds,
        "per_second": len(pairs) / seconds if seconds else 0.0,
        "p50_ms": waits[len(waits) // 2] * 1000 if waits else None,
        "p99_ms": waits[len(waits) * 99 // 100] * 1000 if waits else None,
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.load")
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--destination", default="", help="of ndjson lines")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, help="requests a second; default: as fast as answered")
    parser.add_argument("--first", type=int, default=FIRST_SEQ, help="the first sequence number, of 10 digits")
    parser.add_argument("--keys", type=int, default=0, help="how many keys single messages have in turn; 0 for none")
    parser.add_argument("--times", type=Path)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    url = urlsplit(arguments.url)
    path = url.path + (f"?{url.query}" if url.query else "")
    plan = Plan(
        url.hostname or "127.0.0.1",
        url.port or 80,
        path,
        arguments.count,
        arguments.size,
        arguments.batch,
        arguments.destination,
        arguments.first,
        arguments.keys,
    )

    async def run() -> None:
        await Load(plan, arguments.connections, arguments.rate).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    if arguments.times:
        arguments.times.write_bytes(plan.sent.tobytes() + plan.answered.tobytes())
    print(json.dumps(summary(plan)), flush=True)


if __name__ == "__main__":
    main()
