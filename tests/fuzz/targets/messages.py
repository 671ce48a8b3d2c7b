"""Input from producers: messages and trace events."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

import msgspec

from bus.domain.headers import check_headers
from bus.domain.identity import new_id
from bus.domain.tracing.events import Block, decode_block, encode_block
from bus.errors import InvalidMessage
from bus.http.draft import Draft, draft_of_request
from bus.security.principals import ANYONE
from bus.testing.clock import NOON
from receiver.events_app import _read as read_block
from tests.fuzz.target import Target

_EVENT: Final = b"id: 1\nsource: /shop\ntype: made\nspecversion: 1.0\nsubject: a%20b\ntime: 2026-11-21T12:00:00Z"


_BLOCK: Final = {
    "v": 1,
    "emitter": new_id(NOON),
    "role": "producer",
    "node": "a",
    "seq": 1,
    "at": NOON,
    "lost": 0,
    "events": [{"stage": "sent", "at": NOON, "id": new_id(NOON), "destination": "orders"}],
    "ledger": [],
}


def cloud_events(data: bytes) -> None:
    lines = [line.partition(b":") for line in data.split(b"\n")]
    fields = [(b"ce-" + name.lower(), value) for name, _, value in lines]
    with suppress(InvalidMessage):
        draft = draft_of_request("orders", fields, b"{}")
        check_draft(draft)
        assert bool(draft.event) == bool(draft.repeats)


def check_draft(draft: Draft) -> None:
    """What was accepted can be written, and sent to a subscriber."""
    check_headers(draft.headers)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(draft), type=Draft) == draft


def trace_events(data: bytes) -> None:
    with suppress(InvalidMessage):
        block = read_block(data, ANYONE)
        assert block.line == data
    found = _block(data)
    assert found is None or decode_block(encode_block(found)) == found


def _block(data: bytes) -> Block | None:
    with suppress(msgspec.DecodeError):
        return decode_block(data)
    return None


TARGETS: Final = {
    "cloud_events": Target(cloud_events, [_EVENT, b"id:1\npartitionkey:%C3%A9\nsource:\xc3\xa9"]),
    "trace_events": Target(trace_events, [json.dumps(_BLOCK).encode()]),
}
