"""The trace of a message, and whether its spans are recorded: alike in every process."""

from __future__ import annotations

import pytest

from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.searching.conditions import parse_ref
from bus.domain.tracing.context import Sampler, TraceContext, parse_context, span_of
from bus.testing.writes import message

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-03", 3),
        (f"01-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-of-a-later-version", 1),
    ],
)
def test_a_context_is_read(text: str, flags: int) -> None:
    assert parse_context(text, "a=b") == TraceContext(TRACE, SPAN, flags, "a=b")


@pytest.mark.parametrize(
    "text",
    [
        *("", "00-1-2-01", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE.upper()}-{SPAN}-01"),
        *(f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01"),
        *(
            f"00-{TRACE}-{SPAN}-01-more",
            f"cc-{TRACE}-{SPAN}-01.more",
            f" 00-{TRACE}-{SPAN}-01",
            f"00-{TRACE}-{SPAN}-0é",
        ),
    ],
)
def test_what_w3c_has_everybody_ignore_is_no_context(text: str) -> None:
    assert parse_context(text, "a=b") is None


def test_a_context_is_written_as_it_is_read() -> None:
    context = TraceContext(TRACE, SPAN, 1)
    assert parse_context(context.traceparent) == context


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_message_with_a_parent_is_as_its_parent_is(ratio: float) -> None:
    sampler = Sampler(ratio)
    assert sampler.parent_of(message(1, traceparent=f"00-{TRACE}-{SPAN}-00")) is None
    found = sampler.parent_of(message(1, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="a=b"))
    assert found == TraceContext(TRACE, SPAN, 1, "a=b")


def test_a_message_without_a_parent_is_a_root_whose_trace_has_its_id() -> None:
    for sent in (message(1), message(1, traceparent="00-1-2-01", tracestate="a=b")):
        found = Sampler(1.0).parent_of(sent)
        assert found == TraceContext(sent.id.replace("-", ""), "", 1, "")
        assert Sampler(0.0).parent_of(sent) is None


def test_the_span_of_a_message_is_the_end_of_its_id() -> None:
    sent = message(1)
    assert sent.id.replace("-", "").endswith(span_of(sent.id))
    assert len(span_of(sent.id)) == 16


def test_a_trace_that_began_in_the_bus_is_found_by_its_id() -> None:
    sent = message(1)
    found = Sampler(1.0).parent_of(sent)
    assert found is not None
    assert parse_ref(found.trace_id).message_id == sent.id


def test_a_ratio_is_kept_and_whom_a_smaller_one_takes_a_greater_one_takes_too() -> None:
    sent = [Message(new_id(1_700_000_000_000), "orders", b"") for _ in range(4_000)]
    taken = [{one.id for one in sent if Sampler(ratio).parent_of(one)} for ratio in (0.1, 0.5, 0.9)]
    assert taken[0] < taken[1] < taken[2]
    for found, ratio in zip(taken, (0.1, 0.5, 0.9), strict=True):
        assert abs(len(found) / len(sent) - ratio) < 0.05  # six deviations
