"""Writes of the MongoDB store, beside bare bulks of the same documents into the same kind of collections.

``python -m bench.mongodb [--json] [--count N] [--profile]``; the server is found as the tests find theirs. FerretDB's
figures say how much the store adds to a server, and nothing about what MongoDB reaches.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pymongo import AsyncMongoClient, InsertOne, UpdateOne, WriteConcern

from bench.store import CALL, ROUNDS, messages, outcome
from bus.clock import SystemClock
from bus.domain.message import Message
from bus.domain.tracing.trace import Trace, merge_message, merge_outcome, start_trace
from bus.stores.mongodb import MongodbStore
from bus.stores.mongodb.bodies import reference_of
from bus.stores.mongodb.forms import trace_form
from bus.stores.mongodb.indexes import TRACES
from tests.servers.mongodb_server import serving

Form = dict[str, Any]


def url_of(server: str, database: str) -> str:
    return urlsplit(server)._replace(path=f"/{database}").geturl()


async def store_rate(url: str, sent: Sequence[Message], *, together: bool) -> float:
    """Write messages and their outcomes, as two feeds would: in one gathering, or the outcomes a gathering later."""
    outcomes = [outcome(message, name) for message in sent for name in message.expected]
    each = len(outcomes) // len(sent)
    store = await MongodbStore.open(url, clock=SystemClock(), gather=CALL * (1 + each) if together else CALL)
    await store.write(messages(1, each))
    started = time.perf_counter()
    for start in range(0, len(sent), CALL):
        first = store.write(sent[start : start + CALL])
        then = store.write(outcomes[start * each : (start + CALL) * each])
        if together:
            await asyncio.gather(first, then)
        else:
            await first
            await then
    spent = time.perf_counter() - started
    await store.close()
    return len(sent) / spent


def _form(trace: Trace, message: Message) -> Form:
    return {"_id": trace.id, "revision": "1", **trace_form(trace, reference_of(message.id, message.body).name)}


def _update(before: Form, after: Form) -> UpdateOne:
    changes = {name: value for name, value in after.items() if before[name] != value}
    return UpdateOne({"_id": after["_id"]}, {"$set": {**changes, "revision": "2"}})


def documents(sent: Sequence[Message]) -> tuple[list[Form], list[Form], list[Form]]:
    """Return the documents as the message makes them, as the outcomes leave them, and the bodies."""
    first, last, bodies = [], [], []
    for message in sent:
        trace = start_trace(message.id, message.destination, message.retention_days)
        merge_message(trace, message)
        first.append(_form(trace, message))
        for name in message.expected:
            merge_outcome(trace, outcome(message, name))
        last.append(_form(trace, message))
        bodies.append({"_id": message.id, "bytes": message.body})
    return first, last, bodies


async def bare_rate(url: str, sent: Sequence[Message], *, together: bool) -> float:
    """Write the same documents with nothing around: inserted complete, or inserted and then updated."""
    first, last, bodies = documents(sent)
    client: AsyncMongoClient[Form] = AsyncMongoClient(url)
    database = client.get_default_database(write_concern=WriteConcern("majority", j=True))
    await database["traces"].create_indexes(TRACES)
    started = time.perf_counter()
    for start in range(0, len(sent), CALL):
        part = slice(start, start + CALL)
        await database["bodies"].bulk_write([InsertOne(form) for form in bodies[part]], ordered=False)
        inserted = last[part] if together else first[part]
        await database["traces"].bulk_write([InsertOne(form) for form in inserted], ordered=False)
        if not together:
            updates = [_update(*pair) for pair in zip(first[part], last[part], strict=True)]
            await database["traces"].bulk_write(updates, ordered=False)
    spent = time.perf_counter() - started
    await client.close()
    return len(sent) / spent


async def clear(url: str) -> None:
    client: AsyncMongoClient[Form] = AsyncMongoClient(url)
    await client.drop_database(client.get_default_database())
    await client.close()


def measure(server: str, count: int, subscriptions: int, *, together: bool, profile: bool) -> dict[str, float]:
    sent = messages(count, subscriptions)
    rates, bare = [], []
    for turn in range(1 if profile else ROUNDS):
        url = url_of(server, f"bench_{turn}")
        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        rates.append(asyncio.run(store_rate(url, sent, together=together)))
        if profile:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
        asyncio.run(clear(url))
        bare.append(asyncio.run(bare_rate(url, sent, together=together)))
        asyncio.run(clear(url))
    rate, limit = statistics.median(rates), statistics.median(bare)
    return {"messages_per_s": round(rate), "bare_messages_per_s": round(limit), "ratio": round(rate / limit, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--count", type=int, default=2_048)
    options = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bus-bench-") as folder, serving(Path(folder)) as server:
        for subscriptions in (1, 4):
            for together in (True, False):
                name = f"{subscriptions} outcome(s), " + ("one gathering" if together else "the gathering after")
                result[name] = measure(server, options.count, subscriptions, together=together, profile=options.profile)
    if options.json:
        print(json.dumps(result))
        return
    for name, figures in result.items():
        print(f"{name:44}", figures)


if __name__ == "__main__":
    main()
