"""States of resends and outcomes of their items, as people read them."""

from __future__ import annotations

from typing import Final

STATES: Final = {
    "selecting": "selecting",
    "sending": "resending",
    "waiting": "waiting for outcomes",
    "paused": "paused",
    "done": "done",
    "canceled": "canceled",
}
OUTCOMES: Final = {
    "delivered": "delivered",
    "failed": "failed",
    "skipped": "skipped",
    "missing": "missing",
    "waiting": "waiting",
    "canceled": "canceled",
}
ENDED: Final = frozenset({"done", "canceled"})
TONES: Final = {
    "done": "good",
    "canceled": "wait",
    "paused": "warn",
    "delivered": "good",
    "failed": "bad",
    "missing": "bad",
}
