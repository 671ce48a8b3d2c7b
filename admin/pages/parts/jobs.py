"""States of resends and outcomes of their items, as people read them."""

from __future__ import annotations

from typing import Final

from bus.sentences import N_

STATES: Final = {
    "selecting": N_("selecting"),
    "sending": N_("resending"),
    "waiting": N_("waiting for outcomes"),
    "paused": N_("paused"),
    "done": N_("done"),
    "canceled": N_("canceled"),
}
OUTCOMES: Final = {
    "delivered": N_("delivered"),
    "failed": N_("failed"),
    "skipped": N_("skipped"),
    "missing": N_("missing"),
    "waiting": N_("waiting"),
    "canceled": N_("canceled"),
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
