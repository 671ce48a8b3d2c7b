"""Blocks of trace events as an emitter writes them, made without the code under test."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import xxhash

from bus.domain.identity import id_time, new_id

Event = dict[str, Any]


def settled(at: int, **fields: Any) -> Event:
    """Return the event of a delivered POST; ``fields`` change it."""
    event = {
        "stage": "settled",
        "at": at,
        "id": fields.pop("id", None) or new_id(at - 5),
        "destination": "orders",
        "subscription": "shop",
        "status": "delivered",
        "attempt": 1,
        "attempt_id": "a",
        "code": 200,
        "bytes": 100,
        "latency_us": 5_000,
    }
    return {**event, **fields}


def sent(at: int, **fields: Any) -> Event:
    """Return the event of a message on its producer's disk."""
    return {"stage": "sent", "at": at, "id": fields.pop("id", None) or new_id(at), "destination": "orders", **fields}


def accepted(at: int, *expected: str, **fields: Any) -> Event:
    """Return the event of a message that a receiver accepted for subscriptions."""
    return {**sent(at, **fields), "stage": "accepted", "expected": list(expected or ("shop",))}


def published(at: int, **fields: Any) -> Event:
    """Return the event of a message that a transport took."""
    return {**sent(at), "stage": "published", "status": "confirmed", "transport": "direct", **fields}


def ledger(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the rows of the audit ledger over events."""
    ids: dict[tuple[str, str, str, int], list[int]] = defaultdict(list)
    for event in events:
        minute = id_time(event["id"]) // 60_000 * 60_000
        hashed = xxhash.xxh64_intdigest(event["id"].encode(), seed=42)
        for stage, subscription in _entries(event):
            ids[stage, event["destination"], subscription, minute].append(hashed)
    return [_row(*key, found) for key, found in ids.items()]


def _entries(event: Event) -> list[tuple[str, str]]:
    if event["stage"] == "settled":
        return [] if event["status"] == "retrying" else [(event["status"], event["subscription"])]
    if event["stage"] == "handed" or event.get("status") == "failed":
        return []
    return [(event["stage"], ""), *(("expected", name) for name in event.get("expected", ()))]


def _row(stage: str, destination: str, subscription: str, minute: int, hashes: list[int]) -> dict[str, Any]:
    xor = 0
    for each in hashes:
        xor ^= each
    return {
        "stage": stage,
        "destination": destination,
        "subscription": subscription,
        "minute": minute,
        "count": len(hashes),
        "xor": _signed(xor),
        "sum": _signed(sum(hashes) % 2**64),
        "latency": {},
    }


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def block(events: Sequence[Event], *, emitter: str = "e1", seq: int = 1, at: int = 0, **fields: Any) -> str:
    """Return one line."""
    whole = {"v": 1, "emitter": emitter, "seq": seq, "at": at or 1_763_700_000_000, "lost": 0}
    return json.dumps({**whole, "events": list(events), "ledger": [], **fields}, separators=(",", ":")) + "\n"


def told(events: Sequence[Event], **fields: Any) -> str:
    """Return one line with what its events add to the ledger."""
    return block(events, **{"ledger": ledger(events), **fields})


def blocks(events: Iterable[Event], *, emitter: str = "e1", size: int = 1000) -> list[str]:
    """Return lines of at most ``size`` events."""
    everything = list(events)
    starts = range(0, len(everything), size)
    return [
        block(everything[start : start + size], emitter=emitter, seq=seq) for seq, start in enumerate(starts, start=1)
    ]
