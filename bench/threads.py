"""The Python SDK from threads: ``python -m bench.threads --url URL --spool DIR --count 20000 --threads 64``.

Each thread sends the next message when the one before is durable. It prints one line of JSON, as ``bench.load`` does.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import count
from pathlib import Path
from threading import Thread

from bench.load import FIRST_SEQ, body_of
from bench.systems import TOPIC
from bus import Bus


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.threads")
    parser.add_argument("--url", required=True)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=64)
    given = parser.parse_args()
    waits: list[float] = []
    with Bus(given.url, spool=given.spool, source="bench") as bus:
        bus.send(TOPIC, b"the first one opens the spool")
        numbers = count()
        before = time.monotonic()

        def send() -> None:
            while (number := next(numbers)) < given.count:
                began = time.monotonic()
                bus.send(TOPIC, body_of(FIRST_SEQ + number, given.size), content_type="application/json")
                waits.append(time.monotonic() - began)

        threads = [Thread(target=send) for _ in range(given.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - before
        waits.sort()
        figures = {"per_second": len(waits) / seconds, "p99_ms": waits[len(waits) * 99 // 100] * 1000}
        print(json.dumps({"accepted": len(waits), **figures}), flush=True)


if __name__ == "__main__":
    main()
