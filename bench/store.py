"""The cost of a message in the store, beside a raw insert of the same bytes; and the growth of reads with the store.

``python -m bench.store [--json] [--full] [--profile]``
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self

import apsw

from bus.domain.delivery.delivery import Attempt, Origin, Outcome, Status
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.trace import encode_trace, merge_message, merge_outcome, start_trace
from bus.stores.sqlite import SqliteStore

BODY = os.urandom(512).hex().encode()  # 1 KiB
CALL = 256  # writes a call, as a feed claims them from its spool
ROUNDS = 3


def messages(count: int, subscriptions: int, start: int = 0) -> list[Message]:
    base = time.time_ns() // 1_000_000 // 86_400_000 * 86_400_000
    expected = tuple(f"subscriber-{n}" for n in range(subscriptions))
    return [
        Message(
            id=new_id(base + (start + n) // 8),
            destination=f"orders.{n % 10}",
            body=BODY,
            content_type="application/json",
            sent_at=base + (start + n) // 8,
            received_at=base + (start + n) // 8 + 2,
            source="order-service",
            biz_id=f"order-{start + n}",
            headers={"x-tenant": "t1"},
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            expected=expected,
        )
        for n in range(count)
    ]


def outcome(message: Message, subscription: str, status: Status = Status.DELIVERED) -> Outcome:
    at = message.received_at + 7
    attempt = Attempt(
        f"{message.id}.{subscription}",
        1,
        Origin.TRANSPORT,
        at - 3,
        2.5,
        (None, None, None, 0.1, 2.2, 0.2),
        200,
        "",
        b"",
        "n1",
    )
    return Outcome(
        message_id=message.id,
        destination=message.destination,
        subscription=subscription,
        retention_days=message.retention_days,
        url="http://127.0.0.1:9000/hook",
        status=status,
        generation=0,
        at=at,
        attempt=attempt,
        attempts=1,
        due_at=at + 5000 if status is Status.RETRYING else 0,
    )


class Cost:
    """CPU of the whole process and wall time of a block, per message."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Self:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu = (time.process_time() - self._cpu) / self.count * 1e6
        self.rate = self.count / (time.perf_counter() - self._wall)


async def store_cost(directory: Path, sent: Sequence[Message], *, together: bool) -> Cost:
    """Write messages and their outcomes, as two feeds would: in one gathering, or the outcomes a gathering later."""
    outcomes = [outcome(message, name) for message in sent for name in message.expected]
    each = max(1, len(outcomes) // len(sent))
    store = await SqliteStore.open(directory, gather=CALL * (1 + each) if together else CALL)
    await store.write(messages(1, each))

    with Cost(len(sent)) as cost:
        for start in range(0, len(sent), CALL):
            first = store.write(sent[start : start + CALL])
            then = store.write(outcomes[start * each : (start + CALL) * each])
            if together:
                await asyncio.gather(first, then)
            else:
                await first
                await then
    await store.close()
    return cost


def raw_cost(path: Path, sent: Sequence[Message]) -> Cost:
    """Insert the same documents and bodies with nothing around."""
    rows = []
    for message in sent:
        trace = start_trace(message.id, message.destination, message.retention_days)
        merge_message(trace, message)
        for name in message.expected:
            merge_outcome(trace, outcome(message, name))
        rows.append((bytes.fromhex(message.id.replace("-", "")), encode_trace(trace), message.body))
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE message (row INTEGER PRIMARY KEY, id BLOB UNIQUE, document BLOB, body BLOB)")
    with Cost(len(sent)) as cost:
        for start in range(0, len(rows), CALL):
            with connection:
                connection.executemany(
                    "INSERT INTO message (id, document, body) VALUES (?, ?, ?)", rows[start : start + CALL]
                )
    connection.close()
    return cost


async def median_of(call: Callable[[], Awaitable[object]], times: int = 30) -> float:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        await call()
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent) * 1e3


async def curve(directory: Path, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Grow one store, and time reads at each size."""
    store = await SqliteStore.open(directory, gather=1)
    points: list[dict[str, float]] = []
    size = 0
    for wanted in sizes:
        while size < wanted:
            sent = messages(5_000, 2, size)
            rare = Status.DEAD if size == 0 else Status.DELIVERED
            outcomes = [outcome(sent[0], sent[0].expected[1], rare)]
            outcomes += [
                outcome(m, name) for m in sent for name in m.expected if (m, name) != (sent[0], sent[0].expected[1])
            ]
            await store.write([*sent, *outcomes])
            size += len(sent)
        some = random.sample(sent, 30)
        ids = iter(some)
        searches = {
            "newest": Selection(),
            "destination": Selection(destination="orders.3"),
            "biz_id": Selection(biz_id="order-17"),
            "source": Selection(source="order-service"),
            "dead": Selection(status=Status.DEAD),
            "delivery dead": Selection(destination="orders.0", subscription="subscriber-1", status=Status.DEAD),
            "time": Selection(since=some[0].sent_at, before=some[0].sent_at + 10),
            "text (rare)": Selection(text="order-17"),
        }
        point = {"messages": float(size), "trace": await median_of(lambda ids=ids: store.trace(next(ids).id))}
        for name, selection in searches.items():
            point[name] = await median_of(lambda selection=selection: store.search(selection), 10)
        points.append(point)
    await store.close()
    return points


def report(result: dict[str, object], points: list[dict[str, float]]) -> None:
    for name, figures in result.items():
        print(f"{name:44}", figures)
    print("\nmilliseconds (median) by messages in the store")
    for name in points[0]:
        print(f"{name:16}" + "".join(f"{point[name]:12.2f}" for point in points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="the curve up to a million messages")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    result: dict[str, object] = {}
    for subscriptions in (1, 4):
        for together in (True, False):
            name = f"{subscriptions} outcome(s), " + ("one gathering" if together else "the gathering after")
            result[name] = measure(options.count, subscriptions, together=together, profile=options.profile)
    sizes = [10_000, 100_000, *([1_000_000] if options.full else [])]
    with tempfile.TemporaryDirectory(dir=".") as directory:
        points = asyncio.run(curve(Path(directory), sizes))
    if options.json:
        print(json.dumps({"cost": result, "curve": points}))
    else:
        report(result, points)


def measure(count: int, subscriptions: int, *, together: bool, profile: bool) -> dict[str, float]:
    sent = messages(count, subscriptions)
    costs, raws = [], []
    for _ in range(1 if profile else ROUNDS):
        with tempfile.TemporaryDirectory(dir=".") as directory:
            profiler = cProfile.Profile()
            if profile:
                profiler.enable()
            costs.append(asyncio.run(store_cost(Path(directory), sent, together=together)))
            if profile:
                profiler.disable()
                pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
            raws.append(raw_cost(Path(directory) / "raw.db", sent))
    cpu, raw = statistics.median(c.cpu for c in costs), statistics.median(r.cpu for r in raws)
    return {
        "us": round(cpu, 1),
        "raw_us": round(raw, 1),
        "times_raw": round(cpu / raw, 2),
        "messages_per_s": round(statistics.median(c.rate for c in costs)),
        "raw_messages_per_s": round(statistics.median(r.rate for r in raws)),
    }


if __name__ == "__main__":
    main()
