"""Blocks of trace events: what is left out, what is refused, and what stages tell."""

from __future__ import annotations

import json

import msgspec
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.identity import new_id
from bus.domain.tracing import events
from bus.domain.tracing.events import Block, Stage, TraceEvent, count_events, decode_block, encode_block
from bus.testing.writes import message, outcome

NOW = 1_732_240_000_123


def block(*told: TraceEvent, **changes: object) -> Block:
    fields: dict[str, object] = {
        "v": 1,
        "emitter": new_id(NOW),
        "role": "receiver",
        "node": "host-1",
        "seq": 1,
        "at": NOW,
        "lost": 0,
        "events": list(told),
        "ledger": [],
    }
    return msgspec.convert(fields | changes, Block)


def test_what_is_as_by_default_is_left_out() -> None:
    event = TraceEvent(stage=Stage.SENT, at=NOW, id=new_id(NOW), destination="orders")
    line = encode_block(block(event))
    assert b"\n" not in line
    assert json.loads(line)["events"] == [{"stage": "sent", "at": NOW, "id": event.id, "destination": "orders"}]
    assert decode_block(line) == decode_block(encode_block(decode_block(line)))


def test_a_message_is_told_of_at_its_stages() -> None:
    one = message(1, expected=("billing", "search"), biz_id="order-1", source="shop")
    accepted = events.accepted(one)
    assert (accepted.expected, accepted.bytes, accepted.biz_id, accepted.source, accepted.at) == (
        *(("billing", "search"), len(one.body), "order-1", "shop", one.received_at),
    )
    settled = events.settled(outcome(one, "billing", Status.DELIVERED), one)
    assert (settled.stage, settled.status, settled.subscription, settled.id) == (
        *(Stage.SETTLED, "delivered", "billing", one.id),
    )
    refused = events.published(one, "kafka", confirmed=False, at=NOW)
    assert (refused.status, refused.transport) == ("failed", "kafka")


def test_only_a_first_delivery_has_a_latency() -> None:
    one = message(1)
    delivered = outcome(one, "billing", Status.DELIVERED)
    first = msgspec.structs.replace(delivered, at=one.received_at + 7, ready_at=one.received_at)
    assert events.settled(first, one).latency_us == 7_000
    assert events.settled(msgspec.structs.replace(first, at=one.received_at - 5), one).latency_us == 0
    assert events.settled(msgspec.structs.replace(delivered, ready_at=0), one).latency_us == -1


def test_events_of_a_copy_name_its_replay() -> None:
    sent = message()
    copy = message(replay=f"again-1 {sent.id}")
    told = [
        events.accepted(copy),
        events.settled(outcome(copy, "billing", Status.DELIVERED), copy),
        events.settled(outcome(copy, "billing", Status.SKIPPED, attempt=None), copy),
    ]
    assert [event.replay for event in told] == ["again-1"] * 3
    assert events.accepted(sent).replay == ""


def test_a_long_reason_is_cut() -> None:
    one = message(1)
    failed = msgspec.structs.replace(outcome(one, "billing", Status.DEAD), reason="x" * 500)
    line = encode_block(block(events.settled(failed, one)))
    assert decode_block(line).events[0].reason == "x" * 100


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"seq": 0},
        {"emitter": "me"},
        {"emitter": new_id(NOW) + "\n"},
        {"seq": 2**40 + 1},
        {"lost": -1},
        {"lost": 2**40 + 1},
        {"more": 1},
        {"events": [{"stage": "sent", "at": NOW, "id": "1", "destination": "a"}]},
        {"events": [{"stage": "gone", "at": NOW, "id": new_id(NOW), "destination": "a"}]},
        {"events": [{"stage": "sent", "at": NOW, "id": new_id(NOW), "destination": "a", "more": 1}]},
        {"events": [{"stage": "sent", "at": NOW, "id": new_id(NOW), "destination": "a" * 513}]},
        {"events": [{"stage": "sent", "at": NOW, "id": new_id(NOW), "destination": "a", "bytes": 2**63 - 1}]},
        {"events": "none"},
    ],
)
def test_what_is_not_exactly_a_block_is_refused(change: dict[str, object]) -> None:
    whole = json.loads(encode_block(block()))
    with pytest.raises(msgspec.DecodeError):
        decode_block(json.dumps(whole | change).encode())


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_block(encode_block(block()).replace(b"host-1", b"host-\xff"))


def test_events_are_counted_without_being_read() -> None:
    event = TraceEvent(stage=Stage.SENT, at=NOW, id=new_id(NOW), destination="orders")
    assert count_events(encode_block(block(event, event))) == 2
    assert count_events(b"torn") == 0
