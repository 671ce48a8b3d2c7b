"""A daemon without its thread, on a simulated clock, with a receiver that is a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bus.client.options import Options
from bus.client.outbox import record_of
from bus.client.sending.confirms import Confirms
from bus.client.sending.daemon import Daemon
from bus.client.sending.sender import Sender, rejected, waiting
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER, decode_rejected
from bus.client.spooling.line import Line
from bus.client.spooling.marker import Marker
from bus.domain.identity import new_id
from bus.spool import BlockingSpool
from bus.spool import Options as SpoolOptions

START = 1_780_000_000_000


class Time:
    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> int:
        return START + round(self.elapsed * 1000)

    def monotonic(self) -> float:
        return self.elapsed


def accepted(line: dict[str, Any]) -> dict[str, Any]:
    return {"id": line["id"], "status": "accepted"}


def problem(status: int, field: str = "") -> dict[str, Any]:
    return {"title": "No", "status": status, "detail": f"because {status}", "field": field}


def led(line: dict[str, Any], leader: str = "", *, wait: int = 1) -> dict[str, Any]:
    """Refuse a line, since another receiver sends to its destination."""
    answer = refused(line, 503)
    answer["error"] |= {"leader": leader, "retry_after": wait}
    return answer


def refused(line: dict[str, Any], status: int, field: str = "") -> dict[str, Any]:
    return {"id": line["id"], "status": "rejected", "error": problem(status, field)}


class World:
    """``answer`` is called with a request's lines and returns what a receiver would.

    ``elsewhere`` has the answers of other receivers by host, and ``hosts`` says where each request went.
    """

    def __init__(self, root: Path, **options: Any) -> None:
        self.time = Time()
        self.requests: list[list[dict[str, Any]]] = []
        self.hosts: list[str] = []
        self.queues: list[str] = []
        self.elsewhere: dict[str, Callable[[list[dict[str, Any]]], httpx.Response]] = {}
        self.judge: Callable[[dict[str, Any]], dict[str, Any]] = accepted
        self.answer: Callable[[list[dict[str, Any]]], httpx.Response] = self.judged
        limit = options.pop("spool_limit", 1 << 30)
        self.options = Options(
            url=options.pop("url", "http://receiver"),
            root=root,
            clock=self.time,
            random=lambda: 1.0,
            transport=httpx.MockTransport(self._handle),
            **options,
        )
        self.spool = home.open_home(root, "test", SpoolOptions(consumers=(CONSUMER,), limit=limit))
        self.marker = Marker(self.spool.directory)
        self.confirms = Confirms()
        self.daemon = Daemon(self.spool, self.options, self.marker, self.confirms)

    def judged(self, lines: list[dict[str, Any]]) -> httpx.Response:
        return httpx.Response(200, json={"results": [self.judge(line) for line in lines]})

    def _handle(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/messages"
        assert request.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in request.content.split(b"\n")]
        self.requests.append(lines)
        self.hosts.append(request.url.host)
        self.queues.append(request.headers.get("bus-queue", ""))
        if request.url.host == "receiver":
            return self.answer(lines)
        return self.elsewhere[request.url.host](lines)

    def send(
        self, destination: str = "a", *, body: bytes = b"x", spool: BlockingSpool | None = None, **fields: Any
    ) -> str:
        """Store a message in the process's own spool, or in another one."""
        line = Line(id=new_id(self.time.now()), destination=destination, body_base64=body, **fields)
        (spool or self.spool).append([record_of(line, self.time.now())])
        return line.id

    def work(self) -> float:
        """Step until there is nothing to do now; returns the seconds until there is."""
        while not (wait := self.daemon.step()):
            pass
        return wait

    def counts(self) -> tuple[int, int]:
        stats = self.spool.stats()
        return waiting(stats), rejected(stats)

    def sent(self) -> list[str]:
        return [line["id"] for lines in self.requests for line in lines]

    def reasons(self) -> list[tuple[int, str, dict[str, Any]]]:
        """What is in the rejected lane: status, reason and line."""
        records = self.spool.claim(CONSUMER, 100, "rejected")
        self.spool.release(CONSUMER, records)
        found = [decode_rejected(record.payload) for record in records]
        return [(item.status, item.reason, json.loads(item.line)) for item in found]

    def sender(self) -> Sender:
        return self.daemon._own

    def close(self) -> None:
        self.daemon._end()
        self.spool.close()


@contextmanager
def world(root: Path, **options: Any) -> Iterator[World]:
    made = World(root, **options)
    try:
        yield made
    finally:
        made.close()
