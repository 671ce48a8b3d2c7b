"""Blocks of trace events as an emitter writes them, made without the code under test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from bus.domain.identity import new_id

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


def block(events: Sequence[Event], *, emitter: str = "e1", seq: int = 1, at: int = 0, **fields: Any) -> str:
    """Return one line."""
    whole = {"v": 1, "emitter": emitter, "seq": seq, "at": at or 1_763_700_000_000, "lost": 0}
    return json.dumps({**whole, "events": list(events), "ledger": [], **fields}, separators=(",", ":")) + "\n"


def blocks(events: Iterable[Event], *, emitter: str = "e1", size: int = 1000) -> list[str]:
    """Return lines of at most ``size`` events."""
    everything = list(events)
    starts = range(0, len(everything), size)
    return [
        block(everything[start : start + size], emitter=emitter, seq=seq) for seq, start in enumerate(starts, start=1)
    ]
