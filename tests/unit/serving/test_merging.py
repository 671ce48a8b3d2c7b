"""Metrics of several processes as those of one."""

from __future__ import annotations

import asyncio
import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bus.serving.merging import Merger, fetched


def _text(accepted: dict[str, int], oldest: float, *, up: int, took: float, started: int = 1) -> bytes:
    registry = CollectorRegistry()
    counter = Counter("bus_messages_accepted", "Messages.", ["destination"], registry=registry)
    for destination, count in accepted.items():
        counter.labels(destination).inc(count)
    Gauge("bus_spool_oldest_seconds", "Age.", ["spool"], registry=registry).labels("receiver").set(oldest)
    Gauge("bus_spool_bytes", "Bytes.", registry=registry).set(10)
    Gauge("bus_store_up", "Up.", registry=registry).set(up)
    Histogram("bus_delivery_attempt_seconds", 'A "quoted" text.', registry=registry, buckets=[1, 2]).observe(took)
    Gauge("process_start_time_seconds", "Start.", registry=registry).set(started)
    return generate_latest(registry)


def _samples(text: bytes) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_counts_are_added_up_and_ages_and_troubles_are_the_worst() -> None:
    first = _text({"orders": 2, 'odd "one" } 1.0': 1}, 3.5, up=1, took=0.5)
    second = _text({"orders": 3, "bills": 5}, 1.5, up=0, took=1.5)
    assert _samples(Merger().merged(first, {"b": second})) == {
        ("bus_messages_accepted_total", "orders"): 5.0,
        ("bus_messages_accepted_total", 'odd "one" } 1.0'): 1.0,
        ("bus_messages_accepted_total", "bills"): 5.0,
        ("bus_spool_oldest_seconds", "receiver"): 3.5,
        ("bus_spool_bytes",): 20.0,
        ("bus_store_up",): 0.0,
        ("process_start_time_seconds",): 1.0,
        ("bus_delivery_attempt_seconds_bucket", "1.0"): 1.0,
        ("bus_delivery_attempt_seconds_bucket", "2.0"): 2.0,
        ("bus_delivery_attempt_seconds_bucket", "+Inf"): 2.0,
        ("bus_delivery_attempt_seconds_count",): 2.0,
        ("bus_delivery_attempt_seconds_sum",): 2.0,
    }


def test_a_process_that_has_not_answered_yet_is_left_out() -> None:
    text = _text({"orders": 2}, 3.5, up=1, took=0.5)
    assert _samples(Merger().merged(text, {"b": b""})) == _samples(text)


def _accepted(text: bytes) -> dict[str, float]:
    found = _samples(text)
    return {labels[0]: value for (name, *labels), value in found.items() if name == "bus_messages_accepted_total"}


def test_what_was_counted_stays_counted_when_a_process_is_silent_or_begins_anew() -> None:
    merger, own = Merger(), _text({"orders": 1}, 0, up=1, took=0.5)
    there = _text({"orders": 10, "bills": 5}, 0, up=1, took=0.5)
    assert _accepted(merger.merged(own, {"b": there})) == {"orders": 11, "bills": 5}
    silent = merger.merged(own, {"b": b""})
    assert _accepted(silent) == {"orders": 11, "bills": 5}
    assert _samples(silent)["bus_spool_bytes",] == 10
    anew = merger.merged(own, {"b": _text({"orders": 30}, 0, up=1, took=0.5, started=2)})
    assert _accepted(anew) == {"orders": 41, "bills": 5}
    assert _samples(anew)["bus_delivery_attempt_seconds_count",] == 3
    again = merger.merged(own, {"b": _text({"orders": 31, "bills": 1}, 0, up=1, took=0.5, started=2)})
    assert _accepted(again) == {"orders": 42, "bills": 6}


def test_what_an_older_process_had_counted_before_is_left_out() -> None:
    merger, own = Merger(), _text({"orders": 1}, 0, up=1, took=0.5, started=2)
    there = _text({"orders": 10}, 0, up=1, took=0.5)
    assert _accepted(merger.merged(own, {"b": there})) == {"orders": 1}
    grown = _text({"orders": 12, "bills": 2}, 0, up=1, took=0.5)
    assert _accepted(merger.merged(own, {"b": grown})) == {"orders": 3, "bills": 2}


async def test_a_process_that_answers_slowly_without_an_end_is_left_out_in_time() -> None:
    ended = asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"#")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        url = "http://{}:{}".format(*server.sockets[0].getsockname())
        async with asyncio.timeout(5):
            assert await fetched([url], "") == {url: b""}
            await ended.wait()
