"""The lookup proxy beside an nsqlookupd: answers from memory, and answers that are merged of two clusters."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from bench.report import Row
from bench.run import Run
from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.waiting import wait_until
from tests.servers import nsq

SECTION = "lookup"
CONNECTIONS = 16
PACE = 200  # lookups a second of a paced round
TOPICS = 2_000
MOST_P99 = 2.0
_HEAD = "GET /lookup?topic={topic} HTTP/1.1\r\nHost: {place}\r\nAccept: application/vnd.nsq; version=1.0\r\n\r\n"


class Times(NamedTuple):
    """Lookups a second, and the seconds that each took."""

    rate: float
    seconds: Sequence[float]

    @property
    def p99(self) -> float:
        """Milliseconds that 99 of 100 did not take longer than."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)] * 1000


def measure(run: Run) -> list[Row]:
    """Return the rows of lookups."""
    found: dict[str, list[float]] = {}
    with _rooms(run) as (direct, proxy):
        for round_ in range(run.size.rounds):
            run.step(f"lookups, round {round_ + 1}")
            for name, times in _round(direct, proxy, run.size.seconds).items():
                found.setdefault(name, []).append(times)
    return [
        Row(SECTION, "answered from memory", found["cached rate"], "/s", "nsqlookupd", found["direct rate"], 1.0),
        Row(SECTION, "its p99", found["cached p99"], "ms", "nsqlookupd", found["direct p99"], 1.0, lower=True),
        Row(SECTION, f"p99 at {PACE}/s, topics of two clusters", found["merged p99"], "ms", "nsqlookupd",
            found["paced p99"], MOST_P99, lower=True),
        Row(SECTION, "the same, each merged anew", found["merged rate"], "/s", "nsqlookupd", found["direct rate"]),
    ]  # fmt: skip


def _round(direct: str, proxy: str, seconds: float) -> dict[str, float]:
    """Return the figures of one round, the two sides alternating."""
    one, many = itertools.repeat("t0"), itertools.cycle(f"t{number}" for number in range(TOPICS))
    known, cached = _ask(direct, one, seconds), _ask(proxy, one, seconds)
    paced = _ask(direct, many, seconds * 2, pace=PACE)
    merged = _ask(proxy, many, seconds * 2, pace=PACE)
    every = _ask(proxy, (f"none{number}" for number in itertools.count()), seconds)
    return {
        "direct rate": known.rate,
        "direct p99": known.p99,
        "cached rate": cached.rate,
        "cached p99": cached.p99,
        "paced p99": paced.p99,
        "merged p99": merged.p99,
        "merged rate": every.rate,
    }


@contextmanager
def _rooms(run: Run) -> Iterator[tuple[str, str]]:
    """Run two nsqlookupds that know the same topics, and a proxy in front of them; yield one of each."""
    with run.place() as folder:
        lookupds = [nsq.NsqLookupServer(run.nsq, folder / name, name) for name in ("east", "west")]
        nsqds = [nsq.NsqdServer(run.nsq, folder / f"nsqd-{one.name}", lookupds=[one.tcp]) for one in lookupds]
        told = {one.name: [one.http] for one in lookupds}
        topics = routes(default={"#C": list(told), "#P": "east"})
        proxy = LookupProxy(folder / "proxy", told, topics)
        with lookupds[0], lookupds[1], nsqds[0], nsqds[1], proxy:
            for nsqd in nsqds:
                _make_topics(nsqd)
            for lookupd in lookupds:
                wait_until(lambda lookupd=lookupd: _count(lookupd.http) >= TOPICS, within=60, what="topics are known")
            yield lookupds[0].http, proxy.address


def _make_topics(nsqd: nsq.NsqdServer) -> None:
    with httpx.Client(base_url=f"http://{nsqd.http}", **PLAIN) as client:
        for number in range(TOPICS):
            client.post("/topic/create", params={"topic": f"t{number}"}).raise_for_status()


def _count(lookupd: str) -> int:
    return len(json.loads(httpx.get(f"http://{lookupd}/topics", **PLAIN).content)["topics"])


def _ask(place: str, topics: Iterator[str], seconds: float, *, pace: float = 0.0) -> Times:
    """Ask over kept connections, as fast as answers come or at a pace."""
    return asyncio.run(_asking(place, topics, seconds, pace))


async def _asking(place: str, topics: Iterator[str], seconds: float, pace: float) -> Times:
    taken = array("d")
    begun = time.perf_counter()
    until = begun + seconds
    turns = itertools.count()

    async def connection() -> None:
        host, _, port = place.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < until:
            due = begun + next(turns) / pace if pace else 0.0
            await asyncio.sleep(max(0.0, due - time.perf_counter()) if pace else 0.0)
            asked = time.perf_counter()
            writer.write(_HEAD.format(topic=next(topics), place=place).encode())
            await _answer(reader)
            taken.append(time.perf_counter() - asked)
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(connection())
    return Times(len(taken) / (time.perf_counter() - begun), taken)


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
