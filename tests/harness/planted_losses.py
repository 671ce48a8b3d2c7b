"""Kinds of losses that are planted into events and stores, and what a proof must say: ``docs/proofs/losses.md``."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tests.harness.process import ROOT

ALL: Final = ("all",)
"""Every step of a life."""
PAGE: Final = ROOT / "docs" / "proofs" / "losses.md"
_COLUMNS: Final = 7


class Way(enum.StrEnum):
    """What became of the events of the steps that are listed as lost."""

    SILENTLY = ""
    GAP = "in a gap"
    KILLED = "killed"
    ENDED = "ended in order"
    DROPPED = "dropped"
    LEDGER_KEPT = "still in the ledger"
    LEDGER_LOST = "only from the ledger"
    ANOTHER_HOUR = "in another hour"
    ANOTHER_EMITTER = "by another emitter"
    REPEATED = "read twice"


class More(enum.StrEnum):
    """What else is planted."""

    NO_DUE_WORK = "no due work"
    AT_REST = "at rest"
    OLD = "old"
    ALONE = "alone"
    ARCHIVED = "archived"
    EXPIRED = "expired"
    PAUSED = "paused"


class Kind(NamedTuple):
    """One row of the page: ``events`` and ``rows`` are steps of the ``life`` (``tests.harness.lives``)."""

    name: str
    life: str
    events: tuple[str, ...]
    rows: tuple[str, ...]
    way: Way
    more: frozenset[More]
    verdict: str
    finds: frozenset[str]


def read_kinds() -> list[Kind]:
    """Return the rows of the page's tables, in their order."""
    cells = [line.split("|")[1:-1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in row] for row in cells if len(row) == _COLUMNS]
    return [_kind(*row) for row in rows if row[0] != "what happened"]


def _kind(name: str, life: str, events: str, rows: str, more: str, verdict: str, finds: str) -> Kind:
    ways = [Way(each) for each in _named(more) if each in set(Way)]
    rest = frozenset(More(each) for each in _named(more) if each not in set(Way))
    way = ways[0] if ways else Way.SILENTLY
    return Kind(
        name, life.replace(" ", "_"), _named(events), _named(rows), way, rest, verdict, frozenset(_named(finds))
    )


def _named(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
