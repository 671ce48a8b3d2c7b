"""Texts for kinds and states of jobs, and for outcomes of their items."""

from __future__ import annotations

from typing import Final

from admin.repair.jobs import Kind
from bus.localized_text import N_

KINDS: Final = {Kind.RESEND: N_("resend"), Kind.DISCARD: N_("discard")}
_STATES: Final = {
    "selecting": N_("selecting"),
    "sending": N_("resending"),
    "waiting": N_("waiting for outcomes"),
    "paused": N_("paused"),
    "done": N_("done"),
    "canceled": N_("canceled"),
}
_DISCARDING: Final = N_("discarding")
OUTCOMES: Final = {
    "delivered": N_("delivered"),
    "discarded": N_("discarded"),
    "failed": N_("failed"),
    "skipped": N_("skipped"),
    "missing": N_("missing"),
    "waiting": N_("waiting"),
    "canceled": N_("canceled"),
}
OWN: Final = {Kind.RESEND: "failed", Kind.DISCARD: "discarded"}
"""What only one kind of job counts."""
ENDED: Final = frozenset({"done", "canceled"})
TONES: Final = {
    "done": "good",
    "canceled": "wait",
    "paused": "warn",
    "delivered": "good",
    "discarded": "wait",
    "failed": "bad",
    "missing": "bad",
}


def state_of(kind: Kind, state: str) -> str:
    """Return the text for the state of a job, in English."""
    return _DISCARDING if (kind, state) == (Kind.DISCARD, "sending") else _STATES[state]
