"""The receiver's rate, beside an endpoint that only reads the body under the same server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bench.report import Row
from bench.run import Run
from bench.sending import Sending
from bench.systems import TOPIC, Pier
from tests.harness.http import PLAIN
from tests.harness.process import Child, free_port, module
from tests.harness.waiting import wait_until

SECTION = "ingest"
BATCH = 64
WARM_UP = 640
SINGLE_TARGET, BATCH_TARGET = 0.4, 5.0


def measure(run: Run) -> list[Row]:
    """Return the rows of single messages and of batches."""
    empty: list[float] = []
    single: list[float] = []
    batch: list[float] = []
    waits: list[float] = []
    empty_waits: list[float] = []
    for round_ in range(run.size.rounds):
        run.step(f"ingest, round {round_ + 1}")
        with _empty_endpoint(run) as url:
            rate, wait = _rate(url, run.size.messages)
            empty.append(rate)
            empty_waits.append(wait)
        rate, wait = _of_bus(run, run.size.messages, batch=1)
        single.append(rate)
        waits.append(wait)
        batch.append(_of_bus(run, run.size.messages * 4, batch=BATCH)[0])
    beside = "empty ASGI endpoint"
    return [
        Row(SECTION, "single POST", single, "/s", beside, empty, SINGLE_TARGET),
        Row(SECTION, "single POST, p99 with 64 callers", waits, "ms", beside, empty_waits, lower=True),
        Row(SECTION, f"ndjson batches of {BATCH}", batch, "/s", "single POST", single, BATCH_TARGET),
    ]


def _of_bus(run: Run, count: int, *, batch: int) -> tuple[float, float]:
    """Measure a fresh bus, whose one subscription is paused so that deliveries do not compete."""
    with run.system(Pier.name, ["http://127.0.0.1:9/paused"], paused=True) as system:
        url = system.publish_url if batch == 1 else system.publish_url.removesuffix(f"/{TOPIC}")
        return _rate(url, count, batch=batch, destination=TOPIC)


def _rate(url: str, count: int, *, batch: int = 1, destination: str = "") -> tuple[float, float]:
    Sending(url, WARM_UP, batch=batch, destination=destination).result()
    summary = Sending(url, count, batch=batch, destination=destination).result().summary
    if summary["accepted"] != count:
        raise RuntimeError(f"{url}: {count - summary['accepted']:.0f} of {count} messages were not accepted")
    return summary["per_second"], summary["p99_ms"]


@contextmanager
def _empty_endpoint(run: Run) -> Iterator[str]:
    port = free_port()
    with run.place() as folder, Child(module("bench.empty", port), log=folder / "log") as child:

        def serves() -> bool:
            child.check_running()
            try:
                return httpx.post(f"http://127.0.0.1:{port}/", **PLAIN).is_success
            except httpx.TransportError:
                return False

        wait_until(serves, within=20, what="the empty endpoint")
        yield f"http://127.0.0.1:{port}/v1/messages/{TOPIC}"
