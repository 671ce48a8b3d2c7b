"""From a request to a draft: every header, CloudEvents, lines; and nothing but `InvalidMessage` for what is wrong."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.headers import check_header
from bus.domain.identity import new_id
from bus.domain.times import format_time
from bus.errors import InvalidMessage
from bus.http.draft import Draft, draft_of_line, draft_of_request
from bus.testing.writes import NOON
from receiver.duplicates import scope_of

ID = new_id(NOON, bytes(range(10)))


def single(*headers: tuple[str, str | bytes], body: bytes = b"body") -> Draft:
    raw = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    return draft_of_request("orders", raw, body)


def line(**fields: object) -> Draft:
    return draft_of_line(json.dumps({"destination": "orders", **fields}).encode())


def field_of(call, *args, **kwargs) -> str:
    with pytest.raises(InvalidMessage) as refused:
        call(*args, **kwargs)
    return refused.value.field


def test_a_body_alone_is_a_message() -> None:
    assert single() == Draft("orders", b"body", content_type="application/octet-stream")


@pytest.mark.parametrize(
    ("header", "value", "attribute", "expected"),
    [
        ("content-type", "text/plain; charset=utf-8", "content_type", "text/plain; charset=utf-8"),
        ("bus-message-id", ID.upper(), "id", ID),
        ("bus-original-id", ID, "original_id", ID),
        ("bus-replay", f"again-1 {ID.upper()}", "replay", f"again-1 {ID}"),
        ("bus-biz-id", "订单-42", "biz_id", "订单-42"),
        ("bus-source", "shop", "source", "shop"),
        ("bus-key", "k 1", "key", "k 1"),
        ("bus-routing-key", "a.b", "routing_key", "a.b"),
        ("bus-sent-at", "2026-11-21T13:00:00+01:00", "sent_at", NOON),
        ("bus-deliver-at", format_time(NOON + 5), "deliver_at", NOON + 5),
        ("idempotency-key", "once", "idempotency_key", "once"),
        ("traceparent", "00-1-2-01", "traceparent", "00-1-2-01"),
        ("tracestate", "x=1", "tracestate", "x=1"),
        ("bus-header-x-tenant", "ü", "headers", {"x-tenant": "ü"}),
    ],
)
def test_every_header_is_read(header: str, value: str, attribute: str, expected: object) -> None:
    assert getattr(single((header, value)), attribute) == expected


def test_other_headers_are_left_alone() -> None:
    assert single(("user-agent", b"\xff"), ("accept", "*/*"), ("authorization", "Bearer x")) == single()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("bus-message-id", value) for value in ("", "x", "7", "00000000-0000-4000-8000-000000000000", ID + "0")),
        *(("bus-sent-at", value) for value in ("now", "2026-11-21T12:00:00", "10000-01-01T00:00:00Z")),
        *(
            ("bus-deliver-at", value)
            for value in ("tomorrow", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00")
        ),
        *(("bus-biz-id", value) for value in ("x" * 513, "a\x00b", "a\tb", b"\xff")),
        *(("content-type", value) for value in ("text/ü", "x" * 513, "a\x7f")),
        *(("traceparent", "é"), ("tracestate", "x=é"), ("idempotency-key", "x" * 513), ("bus-key", "\u2028")),
    ],
)
def test_an_impossible_header_is_refused_by_name(header: str, value: str | bytes) -> None:
    assert field_of(single, (header, value)).replace("_", "-") == header


@pytest.mark.parametrize(
    "name", ["host", "content-length", "content-type", "bus-key", "webhook-id", "accept-encoding", ""]
)
def test_a_header_of_ones_own_may_not_be_one_of_the_bus(name: str) -> None:
    assert field_of(single, (f"bus-header-{name}", "x")) == "headers"


@pytest.mark.parametrize("prefix", ["bus-header-x-a", "ce-x"])
def test_a_value_may_not_add_a_line(prefix: str) -> None:
    assert field_of(single, (prefix, "a\r\nhost: evil")) == "headers"


@pytest.mark.parametrize("name", ["bus-header-x-a", "ce-id", "bus-header-accept"])
def test_a_header_that_is_there_twice_is_refused(name: str) -> None:
    assert field_of(single, (name, "1"), (name, "1")) == "headers"


def test_headers_have_bounds_in_both_forms() -> None:
    many = {f"x-{number}": "1" for number in range(64)}
    assert len(line(body=1, headers=many).headers) == 64
    assert len(single(*((f"bus-header-{name}", value) for name, value in many.items())).headers) == 64
    for wrong in (many | {"x": "1"}, {"x": "y" * 8_193}, {"X-A": "1", "x-a": "1"}):
        assert field_of(line, body=1, headers=wrong) == "headers"
    assert field_of(single, ("ce-id", "1"), *((f"bus-header-{name}", "1") for name in many)) == "headers"


def test_a_cloud_event_is_understood_and_passed_on() -> None:
    draft = single(
        ("ce-specversion", "1.0"),
        ("ce-type", "com.example.order"),
        ("ce-source", "/shop%20one"),
        ("ce-id", "A-1"),
        ("ce-subject", "42"),
        ("ce-partitionkey", "k"),
        ("ce-time", "2026-11-21T12:00:00Z"),
        ("content-type", "application/json"),
        ("bus-header-x-a", "1"),
    )
    assert (draft.source, draft.biz_id, draft.key, draft.sent_at) == ("/shop one", "42", "k", NOON)
    assert draft.idempotency_key == "ce:/shop one:A-1"
    assert draft.repeats == ("/shop one", "A-1")
    assert draft.headers == {
        "x-a": "1",
        "ce-specversion": "1.0",
        "ce-type": "com.example.order",
        "ce-source": "/shop%20one",
        "ce-id": "A-1",
        "ce-subject": "42",
        "ce-partitionkey": "k",
        "ce-time": "2026-11-21T12:00:00Z",
    }


def test_two_events_are_not_taken_for_one_nor_for_a_key_that_reads_the_same() -> None:
    events = [single(("ce-source", source), ("ce-id", one)) for source, one in (("urn:a", "b:c"), ("urn:a:b", "c"))]
    key = single(("idempotency-key", "ce:urn:a:b:c"))
    both = single(("ce-source", "urn:a"), ("ce-id", "b:c"), ("idempotency-key", "ce:urn:a:b:c"))
    assert {draft.idempotency_key for draft in (*events, key, both)} == {"ce:urn:a:b:c"}
    assert len({scope_of("d", "1", draft.repeats) for draft in (*events, key)}) == 3
    assert both.repeats == key.repeats


def test_an_event_is_the_same_by_a_line() -> None:
    draft = single(("ce-source", "urn:a"), ("ce-id", "x" * 1_000))
    same = line(body=1, event=["urn:a", "x" * 1_000])
    assert (same.repeats, same.idempotency_key) == (draft.repeats, draft.idempotency_key)
    assert line(body=1, event=["urn:a", "1"], idempotency_key="own").idempotency_key == "own"
    for wrong in (["urn:a"], ["a", "b", "c"], "a", [1, 2]):
        with pytest.raises(InvalidMessage):
            line(body=1, event=wrong)


def test_the_buss_own_headers_win_over_those_of_a_cloud_event() -> None:
    event = [("ce-source", "s"), ("ce-id", "1"), ("ce-subject", "2"), ("ce-partitionkey", "3"), ("ce-time", "nonsense")]
    own = [("bus-source", "S"), ("idempotency-key", "I"), ("bus-biz-id", "B"), ("bus-key", "K")]
    draft = single(*event, *own, ("bus-sent-at", format_time(NOON)))
    assert (draft.source, draft.idempotency_key, draft.biz_id, draft.key, draft.sent_at) == ("S", "I", "B", "K", NOON)


@pytest.mark.parametrize(
    ("header", "value", "field"),
    [
        *(
            ("ce-source", "x" * 513, "ce-source"),
            ("ce-source", "%0A", "ce-source"),
            ("ce-subject", "%00", "ce-subject"),
        ),
        *(("ce-time", "noon", "ce-time"), ("ce-partitionkey", "x" * 513, "ce-partitionkey"), ("ce-x", b"\xff", "ce-x")),
        ("ce-" + "x" * 200, "1", "headers"),
    ],
)
def test_an_impossible_cloud_event_is_refused(header: str, value: str | bytes, field: str) -> None:
    assert field_of(single, (header, value)) == field


def test_a_line_has_every_field() -> None:
    draft = line(
        id=ID,
        biz_id="42",
        key="k",
        routing_key="r",
        source="s",
        sent_at=format_time(NOON),
        headers={"X-A": " 1\t"},
        content_type="text/plain",
        deliver_at=format_time(NOON + 1),
        idempotency_key="i",
        traceparent="t",
        tracestate="x",
        original_id=ID,
        replay=f"again-1 {ID}",
        body_base64=base64.b64encode(b"\x00\xff").decode(),
    )
    assert draft == Draft(
        "orders",
        b"\x00\xff",
        id=ID,
        content_type="text/plain",
        sent_at=NOON,
        source="s",
        biz_id="42",
        key="k",
        routing_key="r",
        headers={"x-a": "1"},
        deliver_at=NOON + 1,
        traceparent="t",
        tracestate="x",
        idempotency_key="i",
        original_id=ID,
        replay=f"again-1 {ID}",
    )


OPTIONAL = (
    *("id", "biz_id", "key", "routing_key", "source", "sent_at", "headers", "content_type", "deliver_at"),
    *("idempotency_key", "traceparent", "tracestate", "original_id", "replay", "event"),
)


@pytest.mark.parametrize("field", OPTIONAL)
def test_null_is_like_a_field_that_is_not_there(field: str) -> None:
    assert line(body={"a": None}, **{field: None}) == line(body={"a": None})


def test_null_is_the_body_unless_there_is_another() -> None:
    everything = dict.fromkeys((*OPTIONAL, "body_base64"))
    assert line(body=None, **everything) == line(body=None)
    assert line(body=None).body == b"null"
    assert line(body=None, body_base64="YQ==").body == b"a"
    assert field_of(line, body_base64=None) == "body"


@pytest.mark.parametrize(
    "body", [b'{"a" :  1}', b"null", b"0", b'""', b"[ ]", b"1.50", b'"\\u00e9"', b"false", b'{"a":1,"a":2}', b"1e999"]
)
def test_a_body_is_delivered_as_the_exact_bytes_of_its_value(body: bytes) -> None:
    for spaces in (b"", b" \t "):
        draft = draft_of_line(b'{"destination":"orders","body":' + spaces + body + spaces + b"}")
        assert (draft.body, draft.content_type) == (body, "application/json")


def test_a_base64_body_has_no_type_of_its_own() -> None:
    assert (line(body_base64="").body, line(body_base64="").content_type) == (b"", "application/octet-stream")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({}, "body"), ({"body": 1, "body_base64": ""}, "body"), ({"body_base64": "*"}, "body_base64")),
        *(({"body_base64": "é"}, "body_base64"), ({"body_base64": "YQ"}, "body_base64")),
        *(({"body": 1, "id": "x"}, "id"), ({"body": 1, "original_id": "x"}, "original_id")),
        *(({"body": 1, "replay": "again-1"}, "replay"), ({"body": 1, "replay": f"a b {ID}"}, "replay")),
        *(({"body": 1, "sent_at": "x"}, "sent_at"), ({"body": 1, "deliver_at": "x"}, "deliver_at")),
        *(({"body": 1, "headers": {"host": "x"}}, "headers"), ({"body": 1, "headers": {"a": "\n"}}, "headers")),
        *(({"body": 1, "biz_id": "x" * 513}, "biz_id"), ({"body": 1, "content_type": "é"}, "content_type")),
        *(({"body": 1, "traceparent": "é"}, "traceparent"), ({"body": 1, "key": "\x00"}, "key")),
    ],
)
def test_an_impossible_field_of_a_line_is_named(fields: dict, field: str) -> None:
    assert field_of(line, **fields) == field


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"null", b"1", b'"x"', b'{"destination":1,"body":1}', b'{"body":1}', b"\xff", b"{}{}"),
        *(
            b'{"destination":"orders","body":1,"headers":{"a":1}}',
            b'{"destination":"orders","body":"\xff"}',
            b'{"destination":"orders","body":{"a":["\xc3\x28"]}}',
            b'{"destination":"orders","body":"\\ud800","key":"\\ud800"}',
        ),
        *(b'{"destination":"orders","body":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b"[" * 50_000),
    ],
    ids=range(16),
)
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidMessage):
        draft_of_line(text)


names = st.sampled_from(
    [
        *(
            "content-type",
            "bus-message-id",
            "bus-original-id",
            "bus-biz-id",
            "bus-source",
            "bus-key",
            "bus-routing-key",
        ),
        *("bus-sent-at", "bus-deliver-at", "idempotency-key", "traceparent", "tracestate", "ce-id", "ce-source"),
        *("ce-time", "ce-subject", "ce-partitionkey", "ce-", "bus-header-", "bus-header-x", "bus-header-Host", "x"),
    ]
) | st.text(st.characters(max_codepoint=255), max_size=10).map(lambda text: f"bus-header-{text}")
values = st.binary(max_size=40) | st.sampled_from([ID.encode(), b"2026-11-21T12:00:00Z", b"%00", b"%ff", b"a" * 600])


@given(st.lists(st.tuples(names, values), max_size=8))
def test_headers_give_a_draft_that_can_be_delivered_or_a_refusal(headers: list[tuple[str, bytes]]) -> None:
    try:
        draft = draft_of_request("orders", [(name.encode("latin-1"), value) for name, value in headers], b"")
    except InvalidMessage:
        return
    deliverable(draft)


def deliverable(draft: Draft) -> None:
    """Check what a dispatcher needs: times that can be written, and values that HTTP can carry."""
    format_time(draft.sent_at)
    format_time(draft.deliver_at)
    for value in (draft.content_type, draft.biz_id, draft.key, draft.traceparent, draft.tracestate):
        assert "\r" not in value
        assert "\n" not in value
        value.encode()
    for name, value in draft.headers.items():
        check_header(name, value)


fields = st.fixed_dictionaries(
    {},
    optional={
        "destination": st.just("orders") | st.text(max_size=5) | st.none(),
        "id": st.sampled_from([ID, "", "x", None]),
        "biz_id": st.text(max_size=5),
        "sent_at": st.sampled_from(["2026-11-21T12:00:00Z", "", "x", "0001-01-01T00:00:00+10:00"]),
        "deliver_at": st.datetimes().map(str) | st.sampled_from(["9999-12-31T23:59:59-10:00"]),
        "headers": st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(), max_size=3),
        "content_type": st.text(max_size=8),
        "traceparent": st.text(max_size=8),
        "body": st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4),
        "body_base64": st.sampled_from(["", "YQ==", "Y", None]),
        "more": st.integers(),
    },
)


@given(fields.map(lambda found: json.dumps(found).encode()) | st.binary(max_size=60))
def test_a_line_gives_a_draft_that_can_be_delivered_or_a_refusal(text: bytes) -> None:
    try:
        draft = draft_of_line(text)
    except InvalidMessage:
        return
    deliverable(draft)
