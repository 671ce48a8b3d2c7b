"""Records of an agent are what its receiver reads: the same draft, with defaults filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.agent.record import prepared_of
from bus.client.options import LARGEST_BODY
from bus.client.spooling.lanes import lane_of
from bus.domain.identity import id_time, new_id
from bus.errors import InvalidDestination, InvalidMessage, MessageTooLarge
from bus.http.draft import Draft, draft_of_line, draft_of_request
from bus.testing.writes import NOON

ID = new_id(NOON - 5, bytes(range(10)))
texts = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_categories=("Cc", "Cs", "Zl")), max_size=40
)
ascii_texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
times = st.sampled_from(["2026-11-21T13:00:00+01:00", "2030-01-01T00:00:00.123Z"])
HEADERS = {
    "bus-message-id": st.just(ID.upper()),
    "bus-original-id": st.just(ID),
    "bus-replay": st.just(f"again-1 {ID}"),
    "bus-biz-id": texts,
    "bus-source": texts,
    "bus-key": texts,
    "bus-routing-key": texts,
    "bus-sent-at": times,
    "bus-deliver-at": times,
    "idempotency-key": texts,
    "content-type": ascii_texts,
    "traceparent": ascii_texts,
    "tracestate": ascii_texts,
    "bus-header-x-tenant": texts,
    "ce-source": texts | st.just("x" * 2_000),
    "ce-id": texts | st.just("y" * 2_000),
    "ce-type": texts,
    "ce-time": times,
}


def stored(draft: Draft, **given: Any) -> Draft:
    """Return what the receiver reads of what an agent stores."""
    options = {"source": "agent-a", "now": NOON, "max_bytes": LARGEST_BODY} | given
    return draft_of_line(prepared_of(draft, **options).record.payload)


def drafted(headers: dict[str, str], body: bytes = b"body") -> Draft:
    return draft_of_request("orders", [(name.encode(), value.encode()) for name, value in headers.items()], body)


@given(st.fixed_dictionaries({}, optional=HEADERS), st.binary(max_size=200))
def test_the_receiver_reads_what_it_would_have_been_told(headers: dict[str, str], body: bytes) -> None:
    try:
        draft = drafted(headers, body)
    except InvalidMessage:
        return  # which the agent answers as the receiver does
    read = stored(draft)
    assert id_time(read.id) == id_time(draft.id) if draft.id else id_time(read.id) == NOON
    assert read == msgspec.structs.replace(
        draft, id=read.id, sent_at=draft.sent_at or NOON, source=draft.source or "agent-a"
    )
    assert read.repeats == draft.repeats


def test_a_line_is_read_as_it_was_given() -> None:
    draft = draft_of_line(b'{"destination": "orders", "id": "%s", "body": {"a": [1,  2]}}' % ID.encode())
    read = stored(draft)
    assert (read.id, read.body, read.content_type) == (ID, b'{"a": [1,  2]}', "application/json")


def test_events_that_read_the_same_are_two() -> None:
    one = stored(drafted({"ce-source": "a:b", "ce-id": "c"}))
    other = stored(drafted({"ce-source": "a", "ce-id": "b:c"}))
    assert one.idempotency_key == other.idempotency_key == "ce:a:b:c"
    assert one.repeats != other.repeats


def test_each_destination_has_a_lane() -> None:
    prepared = prepared_of(drafted({"bus-key": "7", "bus-biz-id": "42"}), "agent-a", NOON, 100)
    assert prepared.record.lane == lane_of("orders")
    assert (prepared.key, prepared.biz_id, prepared.source, prepared.bytes) == ("7", "42", "agent-a", 4)


@pytest.mark.parametrize(
    ("draft", "error"),
    [
        (Draft("-x", b""), InvalidDestination),
        (Draft("a/b", b""), InvalidDestination),
        (Draft("orders", b"x" * 101), MessageTooLarge),
        (Draft("orders", b"x", headers={"x-a": "y" * 100}), MessageTooLarge),
        (Draft("orders", b"x", producer=3), InvalidMessage),
    ],
)
def test_what_no_receiver_would_take_is_refused(draft: Draft, error: type[InvalidMessage]) -> None:
    with pytest.raises(error):
        stored(draft, max_bytes=100)


def test_the_largest_body_makes_a_line_that_fits() -> None:
    assert stored(Draft("orders", bytes(LARGEST_BODY))).body == bytes(LARGEST_BODY)
