"""OTLP as it is written by hand, read by the classes that its makers generate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from bus.domain.tracing.context import TraceContext
from bus.domain.tracing.spans import Shape, Span, SpanKind
from bus.spans.otlp import encode_request, encode_span, rejected_of

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
IDS = st.text("0123456789abcdef", min_size=16, max_size=16)
PAIRS = st.lists(st.tuples(st.text(max_size=20), st.text(max_size=300) | st.integers(0, 2**62)), max_size=5).map(tuple)
CONTEXTS = st.builds(TraceContext, HEX, IDS, st.integers(0, 255), st.text(max_size=200))
SPANS = st.builds(
    Span,
    shape=st.builds(Shape, st.text(max_size=300), st.sampled_from(SpanKind), PAIRS),
    trace_id=HEX,
    span_id=st.just("") | IDS,
    parent_id=st.just("") | IDS,
    state=st.text(max_size=200),
    flags=st.integers(0, 255),
    started_at=st.integers(0, 2**42),
    duration=st.floats(0, 1e9),
    message_id=st.just("") | st.uuids().map(str),
    size=st.integers(-1, 2**40),
    own=PAIRS,
    error=st.text(max_size=200),
    links=st.lists(CONTEXTS, max_size=3),
)


def read(body: bytes) -> Any:
    return ExportTraceServiceRequest.FromString(body)


def values(pairs: Any) -> list[tuple[str, str | int]]:
    return [(pair.key, getattr(pair.value, pair.value.WhichOneof("value"))) for pair in pairs]


@given(st.lists(SPANS, max_size=4))
def test_what_is_written_is_what_is_read(spans: list[Span]) -> None:
    body = encode_request(
        {"service.name": "pier", "n": 300}, "0.1", [encode_span(one, one.span_id or "ab" * 8) for one in spans]
    )
    (group,) = read(body).resource_spans
    (scope,) = group.scope_spans
    assert values(group.resource.attributes) == [("service.name", "pier"), ("n", 300)]
    assert (scope.scope.name, scope.scope.version) == ("pier", "0.1")
    assert len(scope.spans) == len(spans)
    for sent, found in zip(spans, scope.spans, strict=True):
        assert found.trace_id.hex() == sent.trace_id
        assert found.span_id.hex() == (sent.span_id or "ab" * 8)
        assert found.parent_span_id.hex() == sent.parent_id
        assert (found.name, found.kind, found.trace_state) == (sent.shape.name, sent.shape.kind, sent.state)
        assert found.flags == sent.flags
        assert found.start_time_unix_nano == sent.started_at * 1_000_000
        assert found.end_time_unix_nano == found.start_time_unix_nano + int(sent.duration * 1_000_000)
        own = [("messaging.message.id", sent.message_id)] if sent.message_id else []
        own += [("messaging.message.body.size", sent.size)] if sent.size >= 0 else []
        assert values(found.attributes) == [*sent.shape.attributes, *own, *sent.own]
        links = [TraceContext(one.trace_id.hex(), one.span_id.hex(), one.flags, one.trace_state) for one in found.links]
        assert links == sent.links
        assert (found.status.code, found.status.message) == ((2, sent.error) if sent.error else (0, ""))


def test_half_a_character_and_a_clock_that_went_back_cost_no_span() -> None:
    shape = Shape("a", SpanKind.CLIENT, ())
    span = Span(shape, "1" * 32, "2" * 16, "", "", 1, 1_000, -5.0, "", -1, (("a", "x\ud800"),), "y\ud800")
    (found,) = read(encode_request({}, "1", [encode_span(span, span.span_id)])).resource_spans[0].scope_spans[0].spans
    assert found.end_time_unix_nano == found.start_time_unix_nano
    assert (found.attributes[0].value.string_value, found.status.message) == ("x?", "y?")


@pytest.mark.parametrize("count", [0, 1, 127, 128, 70_000])
def test_what_a_collector_left_out_is_read(count: int) -> None:
    answer = ExportTraceServiceResponse()
    assert rejected_of(answer.SerializeToString()) == 0
    answer.partial_success.rejected_spans = count
    answer.partial_success.error_message = "too many"
    assert rejected_of(answer.SerializeToString()) == count


@given(st.binary(max_size=40))
def test_an_answer_that_is_something_else_says_nothing(answer: bytes) -> None:
    assert rejected_of(answer) >= 0
