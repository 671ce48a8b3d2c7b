"""A bare loop of the bus's own HTTP poster, with nothing of the bus around it: ``python -m bench.bare_loop URL...``."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator

import uvloop

from bench.load import FIRST_SEQ, body_of
from bench.systems import CONCURRENCY
from bus.posters.http import HttpPoster
from bus.security.egress import EgressPolicy

HEADERS = [
    ("content-type", "application/json"),
    ("webhook-id", "01936b2e-7c2f-7abc-8def-0123456789ab"),
    ("webhook-timestamp", "1764000000"),
    ("bus-destination", "bench"),
    ("bus-attempt", "1"),
]


async def post_all(urls: list[str], count: int) -> None:
    """POST each body to each URL."""
    poster = HttpPoster(EgressPolicy(allow_loopback=True))
    targets = [poster.target(url, {}) for url in urls]

    async def work(numbers: Iterator[int], url: int) -> None:
        for seq in numbers:
            result = await poster.post(targets[url], HEADERS, body_of(FIRST_SEQ + seq, 1024), 10.0)
            if result.status != 200:
                raise RuntimeError(f"the sink answered {result}")

    async with asyncio.TaskGroup() as group:
        for url in range(len(urls)):
            numbers = iter(range(count))
            for _ in range(CONCURRENCY):
                group.create_task(work(numbers, url))
    await poster.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bare_loop")
    parser.add_argument("url", nargs="+")
    parser.add_argument("--count", type=int, default=20_000)
    given = parser.parse_args()
    begun, cpu = time.perf_counter(), time.process_time()
    uvloop.run(post_all(given.url, given.count))
    posts = given.count * len(given.url)
    per_second = posts / (time.perf_counter() - begun)
    print(json.dumps({"per_second": per_second, "cpu_per_1000": (time.process_time() - cpu) / posts * 1000}))


if __name__ == "__main__":
    main()
