"""Metrics of several processes as those of one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bus.serving.merging import merged


def _text(accepted: dict[str, int], oldest: float, *, up: int, took: float) -> bytes:
    registry = CollectorRegistry()
    counter = Counter("bus_messages_accepted", "Messages.", ["destination"], registry=registry)
    for destination, count in accepted.items():
        counter.labels(destination).inc(count)
    Gauge("bus_spool_oldest_seconds", "Age.", ["spool"], registry=registry).labels("receiver").set(oldest)
    Gauge("bus_spool_bytes", "Bytes.", registry=registry).set(10)
    Gauge("bus_store_up", "Up.", registry=registry).set(up)
    Histogram("bus_delivery_attempt_seconds", 'A "quoted" text.', registry=registry, buckets=[1, 2]).observe(took)
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
    assert _samples(merged([first, second])) == {
        ("bus_messages_accepted_total", "orders"): 5.0,
        ("bus_messages_accepted_total", 'odd "one" } 1.0'): 1.0,
        ("bus_messages_accepted_total", "bills"): 5.0,
        ("bus_spool_oldest_seconds", "receiver"): 3.5,
        ("bus_spool_bytes",): 20.0,
        ("bus_store_up",): 0.0,
        ("bus_delivery_attempt_seconds_bucket", "1.0"): 1.0,
        ("bus_delivery_attempt_seconds_bucket", "2.0"): 2.0,
        ("bus_delivery_attempt_seconds_bucket", "+Inf"): 2.0,
        ("bus_delivery_attempt_seconds_count",): 2.0,
        ("bus_delivery_attempt_seconds_sum",): 2.0,
    }


def test_a_process_that_does_not_answer_is_left_out() -> None:
    text = _text({"orders": 2}, 3.5, up=1, took=0.5)
    assert _samples(merged([text, b""])) == _samples(text)
