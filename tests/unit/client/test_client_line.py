"""A producer's message, as the line that the receiver gets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as otel

from bus import Bus
from bus.client.spooling.line import (
    Line,
    check_deliver_at,
    content_of,
    decode_head,
    decode_line,
    encode_line,
    split_headers,
    text_of,
)
from bus.domain.texts import check_ascii, check_text
from bus.errors import InvalidMessage
from bus.http.draft import draft_of_line

NEW_ID = "019a0000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("message", "body", "content_type", "is_json"),
    [
        (b"\x00\xff", b"\x00\xff", "application/octet-stream", False),
        (bytearray(b"a"), b"a", "application/octet-stream", False),
        (memoryview(b"a"), b"a", "application/octet-stream", False),
        ("ü", "ü".encode(), "text/plain; charset=utf-8", False),
        ("", b"", "text/plain; charset=utf-8", False),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode(), "application/json", True),
        (None, b"null", "application/json", True),
        (0, b"0", "application/json", True),
    ],
)
def test_content_by_type(message: Any, body: bytes, content_type: str, is_json: bool) -> None:
    assert content_of(message, None) == (body, content_type, is_json)


def test_a_given_content_type_wins() -> None:
    assert content_of({"a": 1}, "application/vnd.x+json").content_type == "application/vnd.x+json"


@pytest.mark.parametrize("message", [object(), "\ud800", {"a": object()}])
def test_what_is_not_a_message_is_refused(message: Any) -> None:
    with pytest.raises(InvalidMessage) as error:
        content_of(message, None)
    assert error.value.field == "body"


def test_what_nests_without_end_is_refused() -> None:
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(InvalidMessage):
        content_of(nested, None)


@pytest.mark.parametrize("body", [b"", b"\n\r\x00\xff", b'{"a": 1}\n', bytes(range(256))])
def test_the_receiver_reads_back_the_exact_bytes(body: bytes) -> None:
    line = Line(id=NEW_ID, destination="a", content_type="x/y", body_base64=body, headers={"a": "ü"})
    payload = encode_line(line)
    assert b"\n" not in payload
    draft = draft_of_line(payload)
    assert (draft.id, draft.body, draft.content_type, draft.headers) == (NEW_ID, body, "x/y", {"a": "ü"})
    assert decode_line(payload) == line
    assert decode_line(payload).content == body


def test_json_travels_as_json() -> None:
    content = content_of({"b": "line\nbreak", "a": 1.50}, None)
    payload = encode_line(Line(id=NEW_ID, destination="a", body=msgspec.Raw(content.body)))
    assert b"\n" not in payload
    assert json.loads(payload)["body"] == {"b": "line\nbreak", "a": 1.5}
    assert draft_of_line(payload).body == content.body
    assert decode_head(payload).id == NEW_ID


@pytest.mark.parametrize("value", ["x" * 513, "a\nb", "\x00", 42, b"x"])
def test_a_text_that_a_receiver_would_refuse_is_refused_here(value: Any) -> None:
    with pytest.raises(InvalidMessage) as error:
        text_of(value, "biz_id")
    assert error.value.field == "biz_id"


@pytest.mark.parametrize("value", ["text/ü", "x" * 513, "a\x7f"])
def test_a_header_that_a_receiver_would_refuse_is_refused_here(value: str) -> None:
    with pytest.raises(InvalidMessage) as error:
        text_of(value, "content_type", check_ascii)
    assert error.value.field == "content_type"
    with pytest.raises(InvalidMessage) as error:
        split_headers({"tracestate": value})
    assert error.value.field == "tracestate"


def taken(call: Callable[[], object]) -> bool:
    try:
        call()
    except InvalidMessage:
        return False
    return True


@given(st.text(max_size=4), st.sampled_from([0, 1, 508, 511, 512, 513]), st.sampled_from(["", "é", "\n", "x"]))
def test_the_sdk_takes_what_the_receiver_takes_and_nothing_else(start: str, length: int, end: str) -> None:
    value = start + "x" * (length - len(start) - len(end)) + end
    plain = dict.fromkeys(("biz_id", "key", "source"), check_text)
    for field, check in (plain | dict.fromkeys(("content_type", "traceparent", "tracestate"), check_ascii)).items():
        document = json.dumps({"destination": "a", "body": 1, field: value}).encode()
        assert taken(partial(text_of, value, field, check)) == taken(partial(draft_of_line, document))


def test_trace_context_is_taken_out_of_the_headers() -> None:
    found = split_headers({"Traceparent": "00-1", "tracestate": "a=1", "x-own": "1"})
    assert found == ({"x-own": "1"}, "00-1", "a=1")


@pytest.mark.parametrize(
    "headers", [{"bus-key": "1"}, {"a b": "1"}, {"a": "1\r\nb: 2"}, {"a": "\ud800"}, {"host": "x"}, {"a": 1}, {1: "a"}]
)
def test_headers_of_the_bus_itself_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidMessage) as error:
        split_headers(headers)
    assert error.value.field == "headers"


def test_the_current_span_is_passed_on() -> None:
    context = otel.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=otel.TraceFlags(1))
    with otel.use_span(otel.NonRecordingSpan(context)):
        found = split_headers(None)
        assert found.traceparent == f"00-{0xABC:032x}-{0xDEF:016x}-01"
        assert split_headers({"traceparent": "given"}).traceparent == "given"
    assert split_headers(None).traceparent == ""


def test_a_trace_state_that_is_too_long_is_left_out() -> None:
    for length, kept in ((200, True), (255, False)):
        state = otel.TraceState([("a", "x" * length), ("b", "y" * length), ("c", "z" * 50)])
        context = otel.SpanContext(0xABC, 0xDEF, is_remote=False, trace_state=state)
        with otel.use_span(otel.NonRecordingSpan(context)):
            found = split_headers(None)
        assert found.traceparent
        assert (found.tracestate != "") is kept


def test_deliver_at_is_utc() -> None:
    moment = datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1)))
    assert check_deliver_at(moment) == "2026-01-31T12:00:00.000Z"
    assert check_deliver_at("2026-01-31T12:00:00+00:00") == "2026-01-31T12:00:00.000Z"
    assert check_deliver_at(None) == ""


@pytest.mark.parametrize("moment", ["soon", "2026-01-31T12:00:00", datetime(2026, 1, 31), 5])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused(moment: Any) -> None:
    with pytest.raises(InvalidMessage) as error:
        check_deliver_at(moment)
    assert error.value.field == "deliver_at"


@pytest.mark.parametrize(
    "message", [math.nan, {"a": math.inf}, {"a": [None, {"b": -math.inf}]}, [(1.0, math.nan)], {math.nan}]
)
def test_a_number_that_json_has_not_is_refused(message: object) -> None:
    with pytest.raises(InvalidMessage, match="NaN") as error:
        content_of(message, None)
    assert error.value.field == "body"


def test_null_is_no_such_number() -> None:
    assert content_of({"null": None, "n": [1.5, "null"]}, None).body == b'{"null":null,"n":[1.5,"null"]}'


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"headers": {"a": b"x"}}, "header a: expected str, got bytes"),
        ({"headers": {b"a": "x"}}, "a name in headers: expected str, got bytes"),
        ({"headers": [("a", "b")]}, "headers: expected a mapping of names to texts, got list"),
        ({"key": 5}, "key: expected str, got int"),
        ({"deliver_at": 5}, "deliver_at: expected datetime or str, got int"),
        ({"id": 5}, "id: expected str, got int"),
        ({"idempotency_key": b"k"}, "idempotency_key: expected str, got bytes"),
        ({"destination": None}, "destination: expected str, got NoneType"),
        ({"message": object()}, "neither bytes, text nor JSON"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error_too(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    arguments = {"destination": "orders", "message": 1, **given}
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus, pytest.raises(TypeError, match=told) as error:
        bus.send(**arguments)
    assert isinstance(error.value, InvalidMessage)
    assert error.value.field == next(iter(given)).replace("message", "body")
    assert not list(tmp_path.iterdir())


def test_an_id_and_an_idempotency_key_are_in_the_line(tmp_path: Path) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
        prepared = bus.prepare("orders", 1, id=NEW_ID.upper(), idempotency_key="once")
        with pytest.raises(InvalidMessage, match="no UUID of version 7"):
            bus.prepare("orders", 1, id="7")
    line = decode_line(prepared.record.payload)
    assert (prepared.id, line.id, line.idempotency_key) == (NEW_ID, NEW_ID, "once")
