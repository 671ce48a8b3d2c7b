"""Latency of searches over HTTP in a full store: p95 of each kind."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx

from bench.million import fill_directory
from bench.population import DESTINATIONS, Population, Sent
from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import percentile
from bus.domain.searching.conditions import trace_id_of
from bus.domain.times import DAY, format_time
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN

SECTION = "search"
GOAL = 300.0  # milliseconds
ASKED = 40  # requests of a kind
KNOWN = 400  # messages of which ids are asked for


class Kind(NamedTuple):
    """Requests of one kind: paths of the API."""

    name: str
    paths: Iterable[str]


class Waited(NamedTuple):
    """Milliseconds of each request of a kind, and how the answers were: pages that ran out of time, and found items."""

    kind: str
    spent: list[float]
    partial: int
    found: int
    back: str

    @property
    def p95(self) -> float:
        return percentile(sorted(self.spent), 0.95)

    @property
    def note(self) -> str:
        """Say how far pages got that ran out of time."""
        return f"{self.partial} of {len(self.spent)} pages partial, back to {self.back}" if self.partial else ""


def measure(run: Run) -> list[Row]:
    """Return a row for each kind of search, in a store of as many messages as the run's backlog has."""
    with run.place() as folder:
        population = Population(run.size.backlog, time.time_ns() // 1_000_000)
        run.step(f"search: filling a store with {run.size.backlog:,} messages")
        asyncio.run(fill_directory(folder, population, lambda _: None))
        return [
            against_limit(SECTION, f"p95, {waited.kind}", [waited.p95], "ms", GOAL, beside="goal", note=waited.note)
            for waited in ask(folder, population, run.step)
        ]


def ask(data: Path, population: Population, step: Callable[[str], None], *, most: int = KNOWN) -> list[Waited]:
    """Ask a bus on a data directory for all kinds, each ``most`` times at most, and return how long each took."""
    with BusProcess(data) as bus, httpx.Client(base_url=bus.url, timeout=60, **PLAIN) as client:
        waits = []
        for kind in kinds(population):
            step(f"search: {kind.name}")
            waits.append(_ask(client, kind, most))
    return waits


def kinds(population: Population) -> list[Kind]:
    """Return what people ask for."""
    sent = _some(population)
    messages = [one.message for one in sent]
    traced = [trace_id_of(message.traceparent) for message in messages if message.traceparent]
    end = population.end
    hour = {"from": format_time(end - DAY), "to": format_time(end - DAY + 3_600_000)}
    return [
        Kind("any id: message", _searches({"ref": message.id} for message in messages)),
        Kind("any id: trace", _searches({"ref": trace} for trace in traced)),
        Kind("any id: biz id", _searches({"ref": message.biz_id} for message in messages)),
        Kind("any id: key", _searches({"ref": message.key} for message in messages if message.key)),
        Kind("any id: of nothing", _searches({"ref": f"nothing-{n}"} for n in range(ASKED))),
        Kind("a trace", (f"/api/v1/messages/{message.id}" for message in messages)),
        Kind("first page, everything", _searches({"limit": 50} for _ in range(ASKED))),
        Kind("first page, a destination", _searches({"destination": code} for code in _cycled(DESTINATIONS))),
        Kind("first page, dead", _searches({"status": "dead"} for _ in range(ASKED))),
        Kind("first page, retrying", _searches({"status": "retrying"} for _ in range(ASKED))),
        Kind(
            "first page, dead of a subscription",
            _searches({"destination": c, "subscription": "mail", "status": "dead"} for c in _cycled(DESTINATIONS)),
        ),
        Kind("first page, 5xx", _searches({"status_class": "5xx"} for _ in range(ASKED))),
        Kind(
            "first page, no answer, of a subscription",
            _searches(
                {"destination": c, "subscription": "mail", "status_class": "none"} for c in _cycled(DESTINATIONS)
            ),
        ),
        Kind("first page, an error", _searches({"error": "timed out"} for _ in range(ASKED))),
        Kind(
            "first page, an error of a destination",
            _searches({"error": "404", "destination": c} for c in _cycled(DESTINATIONS)),
        ),
        Kind("first page, a source in an hour", _searches({"source": "crm", **hour} for _ in range(ASKED))),
        Kind("first page, a header", _searches({"header": f"x-tenant: t{n}"} for n in range(ASKED))),
        Kind(
            "first page, a path in bodies",
            _searches({"body_path": "order.lines[0].sku", "body_value": f"SKU-{n:04d}"} for n in range(ASKED)),
        ),
        Kind(
            "first page, a rare text in bodies",
            _searches({"text": f'"id":{message.biz_id[6:]},'} for message in messages[:: KNOWN // ASKED]),
        ),
        Kind("first page, a text of nothing in bodies", _searches({"text": "nowhere"} for _ in range(ASKED))),
    ]


def _some(population: Population) -> list[Sent]:
    """Return messages of all times."""
    every = max(1, population.count // KNOWN)
    return list(itertools.islice(population, every // 2, None, every))


def _cycled(values: Iterable[str]) -> Iterable[str]:
    return itertools.islice(itertools.cycle(values), ASKED)


def _searches(queries: Iterable[dict[str, Any]]) -> Iterable[str]:
    return ("/api/v1/messages?" + urlencode(query) for query in queries)


def _ask(client: httpx.Client, kind: Kind, most: int) -> Waited:
    spent: list[float] = []
    partial = found = 0
    backs: list[str] = []
    for path in itertools.islice(kind.paths, most):
        began = time.perf_counter()
        answer = client.get(path).raise_for_status()
        spent.append((time.perf_counter() - began) * 1e3)
        document = answer.json()
        searched = document.get("searched", {})
        found += len(document.get("items", [document]))
        if searched.get("reason") == "time":
            partial += 1
            backs.append(searched["from"])
    return Waited(kind.name, spent, partial, found, sorted(backs)[len(backs) // 2] if backs else "")
