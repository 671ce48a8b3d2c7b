"""The span of a `send`, in an application that uses OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from bus import AsyncBus, Bus
from bus.client.spooling.line import decode_line
from bus.client.tracing import sending
from bus.domain.tracing.context import parse_context
from bus.errors import InvalidDestination

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Ended(SpanProcessor):
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    found, provider = Ended(), TracerProvider()
    provider.add_span_processor(found)
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    yield found
    provider.shutdown()


def context_of(prepared: list[Any]) -> str:
    return decode_line(prepared[0].record.payload).traceparent


class Kept:
    """Takes the place of a bus's disk."""

    def __init__(self, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.traceparents: list[str] = []
        monkeypatch.setattr(bus, "store", self.store)

    def store(self, prepared: list[Any]) -> None:
        self.traceparents.append(context_of(prepared))


def test_a_send_is_a_span_below_the_current_one_and_the_messages_parent(
    tmp_path: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
        kept = Kept(bus, monkeypatch)
        with otel.get_tracer("shop").start_as_current_span("order") as order:
            message_id = bus.send("orders", b"12345")
        bus.send("orders", b"")
    span, above, alone = ended.spans
    context = order.get_span_context()
    assert (span.name, span.kind, above.name) == ("send orders", otel.SpanKind.PRODUCER, "order")
    assert span.context.trace_id == context.trace_id
    assert span.parent is not None
    assert span.parent.span_id == context.span_id
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == message_id
    assert span.attributes["messaging.message.body.size"] == 5
    assert span.attributes["messaging.destination.name"] == "orders"
    assert span.status.is_ok or span.status.is_unset
    assert alone.parent is None
    for one, traceparent in zip((span, alone), kept.traceparents, strict=True):
        found = parse_context(traceparent)
        assert found is not None
        assert (int(found.trace_id, 16), int(found.span_id, 16)) == (one.context.trace_id, one.context.span_id)
        assert found.flags & 1


def test_a_context_that_is_given_is_the_messages_own(
    tmp_path: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
        kept = Kept(bus, monkeypatch)
        bus.send("orders", b"", headers={"Traceparent": GIVEN})
    assert kept.traceparents == [GIVEN]
    assert ended.spans == []


def test_a_refused_send_is_a_failed_span(tmp_path: Path, ended: Ended) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus, pytest.raises(InvalidDestination):
        bus.send("no code", b"")
    (span,) = ended.spans
    assert not span.status.is_ok
    assert span.status.status_code is otel.StatusCode.ERROR


def test_what_the_application_does_not_sample_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
        kept = Kept(bus, monkeypatch)
        bus.send("orders", b"")
    found = parse_context(kept.traceparents[0])
    assert found is not None
    assert not found.flags & 1
    provider.shutdown()


def test_a_tracer_that_fails_costs_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(otel, "get_tracer_provider", fail)
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
        kept = Kept(bus, monkeypatch)
        bus.send("orders", b"")
    assert kept.traceparents == [""]


def test_without_opentelemetry_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "opentelemetry.trace")
    with sending("orders", None) as one, sending("orders", {}) as other:
        assert one is other


async def test_tasks_have_spans_of_their_own(tmp_path: Path, ended: Ended) -> None:
    async with AsyncBus("http://127.0.0.1:9", spool=tmp_path) as bus:
        ids = await asyncio.gather(*(bus.send("orders", b"") for _ in range(3)))
    found = [span.attributes["messaging.message.id"] for span in ended.spans if span.attributes]
    assert sorted(found) == sorted(ids)
    assert all(span.parent is None for span in ended.spans)
