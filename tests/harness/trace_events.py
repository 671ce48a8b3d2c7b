"""The trace events that a bus has written, read as strictly as they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bus.domain.tracing.audit_ledger import ledger_of
from bus.domain.tracing.events import Block, Stage, TraceEvent, decode_block

Bucket = tuple[str, str, str, int]


def blocks(data: Path) -> list[Block]:
    """Return the blocks of closed files, each once, in the order of their numbers for each emitter.

    Raises
    ------
    msgspec.DecodeError
        A line is not exactly a block.
    """
    paths = sorted((data / "events").glob("*.jsonl"))
    lines = [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]
    assert all(line.endswith(b"\n") for line in lines)
    found = {(block.emitter, block.seq): block for block in map(decode_block, lines)}
    for block in found.values():
        assert block.ledger == ledger_of(block.events)
    return [found[key] for key in sorted(found)]


def gaps(found: Iterable[Block]) -> int:
    """Return how many blocks are missing before the last one of each emitter."""
    seqs: dict[str, set[int]] = {}
    for block in found:
        seqs.setdefault(block.emitter, set()).add(block.seq)
    return sum(max(numbers) - len(numbers) for numbers in seqs.values())


def told(found: Iterable[Block], stage: Stage, status: str = "") -> list[TraceEvent]:
    """Return the events of a stage, and of a status where one is given."""
    events = [event for block in found for event in block.events if event.stage is stage]
    return [event for event in events if not status or event.status == status]


def ids(events: Iterable[TraceEvent]) -> Counter[str]:
    """Count events by message."""
    return Counter(event.id for event in events)


def sums(found: Iterable[Block], stage: str, subscription: str = "") -> tuple[int, int, int]:
    """Return count, xor and sum of a stage of the ledger over all minutes and destinations."""
    count = xor = total = 0
    for row in (row for block in found for row in block.ledger):
        if row.stage == stage and row.subscription == subscription:
            count, xor, total = count + row.count, xor ^ row.xor, total + row.sum
    return count, xor, (total + 2**63) % 2**64 - 2**63
