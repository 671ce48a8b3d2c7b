"""A POST of several messages: what is in it, and what is believed of the answer."""

from __future__ import annotations

import base64
import gzip
import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.domain.delivery.batch import (
    BatchAnswer,
    batch_body,
    batch_entry,
    batch_headers,
    read_batch_answer,
    size_in_batch,
)
from bus.domain.delivery.delivery import BatchMark
from bus.domain.message import Message
from bus.domain.subscription import BatchFormat
from bus.http.draft import draft_of_line
from bus.testing.writes import message

JSON = "application/json"
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, width=32) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def of(body: bytes, content_type: str = JSON, **fields: object) -> Message:
    return message(1, body=body, content_type=content_type, **fields)


def test_an_entry_has_what_the_message_has_and_leaves_out_what_it_has_not() -> None:
    full = of(
        b'{"order": 42}',
        key="k",
        routing_key="eu.shoes",
        headers={"X-Tenant": "a"},
        traceparent="00-1-2-01",
        tracestate="x=1",
        replay="again-1 id",
    )
    assert json.loads(batch_entry(full, 3)) == {
        "id": full.id,
        "attempt": 3,
        "destination": "orders",
        "content_type": JSON,
        "biz_id": "order-1",
        "key": "k",
        "routing_key": "eu.shoes",
        "source": "shop",
        "sent_at": "2026-11-21T12:00:00.001Z",
        "received_at": "2026-11-21T12:00:00.003Z",
        "headers": {"X-Tenant": "a"},
        "traceparent": "00-1-2-01",
        "tracestate": "x=1",
        "replay": "again-1 id",
        "body": {"order": 42},
    }
    bare = Message(full.id, "orders", b"x", "text/plain")
    names = {"id", "attempt", "destination", "content_type", "body_base64"}
    assert json.loads(batch_entry(bare, 1)).keys() == names
    assert "tracestate" not in json.loads(batch_entry(of(b"1", tracestate="x=1"), 1))


def test_a_json_body_is_in_it_byte_for_byte() -> None:
    body = b'{"n":1.10, "big": 123456789012345678901234567890,"n":2, "text":"\xc3\xa9\\u00e9" }'
    line = batch_entry(of(body), 1)
    assert line.endswith(b',"body":' + body + b"}")


@pytest.mark.parametrize("kind", [JSON, "Application/JSON; charset=utf-8", "application/vnd.acme+json"])
def test_what_says_that_it_is_json_is_json(kind: str) -> None:
    assert json.loads(batch_entry(of(b"[1]", kind), 1))["body"] == [1]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        *((body, JSON) for body in (b"", b"{", b"[1,]", b"{}{}", b'"\xff"', b'"a\nb"', b"NaN", b"\xef\xbb\xbf{}")),
        (b"[" * 50_000 + b"]" * 50_000, JSON),
        (b'"\\ud800"', JSON),
        (b"{}", "text/plain"),
        (b"{}", "application/octet-stream"),
        (bytes(range(256)), "image/png"),
    ],
)
def test_what_is_no_json_goes_in_base64(body: bytes, kind: str) -> None:
    entry = json.loads(batch_entry(of(body, kind), 1))
    assert base64.b64decode(entry["body_base64"], validate=True) == body
    assert "body" not in entry


@given(documents, st.sampled_from([None, 2]), st.booleans(), st.text(max_size=20))
@example("\u2028\u2029\x85\x1c", 1, True, "\u2028")
def test_an_entry_is_one_line_for_every_reader(found: object, indent: int | None, plain: bool, biz_id: str) -> None:
    body = json.dumps(found, indent=indent, ensure_ascii=not plain).replace("\n", "\r\n").encode(errors="replace")
    line = batch_entry(of(body, biz_id=biz_id), 1)
    assert len(line.decode().splitlines()) == 1
    assert len(line.splitlines()) == 1
    entry = json.loads(line)
    assert entry.get("biz_id", "") == biz_id
    shown = entry["body"] if "body" in entry else json.loads(base64.b64decode(entry["body_base64"]))
    assert shown == json.loads(body)


@given(st.lists(st.binary(max_size=50) | documents.map(lambda one: json.dumps(one).encode()), min_size=1, max_size=5))
def test_both_formats_have_all_bodies_in_order(bodies: list[bytes]) -> None:
    entries = [batch_entry(of(body), number) for number, body in enumerate(bodies, 1)]
    lines = batch_body(entries, BatchFormat.NDJSON)
    assert lines.endswith(b"\n")
    one_a_line = [msgspec.json.decode(line) for line in lines.splitlines()]
    assert msgspec.json.decode(batch_body(entries, BatchFormat.JSON)) == one_a_line
    assert [entry["attempt"] for entry in one_a_line] == list(range(1, len(bodies) + 1))


def test_what_a_subscriber_gets_it_can_send_on_as_it_is() -> None:
    drafts = [draft_of_line(batch_entry(of(body, headers={"x-a": "b"}), 1)) for body in (b'{"a":1}', b"\x00")]
    assert [draft.body for draft in drafts] == [b'{"a":1}', b"\x00"]
    assert {(draft.destination, draft.biz_id, draft.source) for draft in drafts} == {("orders", "order-1", "shop")}


def test_the_headers_are_those_of_the_whole() -> None:
    for written, kind in ((BatchFormat.NDJSON, "application/x-ndjson"), (BatchFormat.JSON, "application/json")):
        headers = batch_headers(BatchMark("batch-1", 7), written, 1_999, "v1,x")
        assert headers == [
            ("content-type", kind),
            ("webhook-id", "batch-1"),
            ("webhook-timestamp", "1"),
            ("bus-batch", "7"),
            ("webhook-signature", "v1,x"),
        ]
    assert "webhook-signature" not in dict(batch_headers(BatchMark("batch-1", 7), BatchFormat.JSON, 0, ""))


def test_bodies_and_own_headers_count() -> None:
    assert size_in_batch(of(b"12345")) == 5
    assert size_in_batch(of(b"12345", headers={"x-a": "bc"})) == 10


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"ok", b"[]", b'["a"]', b'"a"', b"null", b"<html>", b"\xff\xfe", b"failed: a"),
        *(b"{}", b' {"failed": []}', b'{"ok":["a"]}'),
        b'{"items":{"failed":["a"]}}',
        b'{"failed":["b","A"," a"]}',
    ],
)
def test_what_is_not_listed_is_delivered(answer: bytes) -> None:
    assert read_batch_answer(answer, is_whole=True).error_of("a") == ""


@pytest.mark.parametrize(
    "answer",
    [
        b'{"failed":["a"]}',
        b'\r\n {"failed": ["b", "a", "a"], "why": {"a": 1}}\n',
        b'\xef\xbb\xbf{"failed":["a"]}',
        '{"failed":["a"]}'.encode("utf-16"),
        '{"failed":["a"]}'.encode("utf-32-le"),
        b'{"f\\u0061iled":["\\u0061"]}',
    ],
)
def test_what_is_listed_has_failed_alone(answer: bytes) -> None:
    said = read_batch_answer(answer, is_whole=True)
    assert said.error_of("a") == "the subscriber listed it as failed"
    assert said.error_of("c") == ""


@pytest.mark.parametrize(
    "answer",
    [
        *(
            b"{",
            b'{"failed":["a"',
            b'{"failed":["a"]',
            b'{"failed":["a"]}}',
            b"{'failed':['a']}",
            b'{"failed":["\xff"]}',
        ),
        *(b'{"failed":"a"}', b'{"failed":{"a":1}}', b'{"failed":[1]}', b'{"failed":["b",null]}', b'{"failed":3}'),
        *(b'{"failed":true}', b'{"failed":null}', b'{"failed":0}', b'{"failed":false}', b'{"failed":""}'),
        *(
            '{"failed":["a"'.encode("utf-16"),
            gzip.compress(b'{"failed":["a"]}', mtime=0),
            b'\xef\xbb\xbf {"failed":["a"',
        ),
        b'{"x":' + b"[" * 50_000,
    ],
)
def test_an_answer_that_cannot_be_read_delivers_nothing(answer: bytes) -> None:
    said = read_batch_answer(answer, is_whole=True)
    assert said.unclear
    assert said.error_of("a") == said.error_of("c") == said.unclear


@pytest.mark.parametrize("answer", [b"", b"ok", b'{"failed":[]}', b'{"failed":["a"]}'])
def test_an_answer_that_was_cut_off_delivers_nothing(answer: bytes) -> None:
    assert "cut off" in read_batch_answer(answer, is_whole=False).error_of("c")


@given(st.lists(st.text(max_size=12)), st.text(max_size=12), st.integers(0, 400))
def test_no_piece_of_a_list_is_taken_for_the_list(failed: list[str], one: str, at: int) -> None:
    whole = json.dumps({"failed": [*failed, one]}).encode()
    for piece in (whole[:at], whole):
        said = read_batch_answer(piece, is_whole=True)
        assert said.error_of(one) or not piece


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer(answer: bytes) -> None:
    assert isinstance(read_batch_answer(answer, is_whole=True), BatchAnswer)
