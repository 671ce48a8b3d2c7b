"""The history of a spool's run, and whether the state found afterwards fits it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool

LANES = ("a", "b", "c")


def body(number: int, size: int) -> bytes:
    """Return a record's bytes, which carry its number and prove themselves."""
    filling = (b"%d." % number) * (size // 2 + 1)
    data = b"%d:%s" % (number, filling[:size])
    return b"%08x:%s" % (crc32(data), data)


def number_of(payload: bytes) -> int:
    """Return the number, after checking that every byte is as it was made."""
    check, _, data = payload.partition(b":")
    assert int(check, 16) == crc32(data), "the body is not what was appended"
    return int(data.partition(b":")[0])


def record(number: int, size: int = 100) -> NewRecord:
    return NewRecord(LANES[number % len(LANES)], body(number, size), number)


@dataclass
class History:
    """Calls (each a list of record numbers) by what is known of them.

    ``tried`` may or may not be stored; ``stored`` was acknowledged; ``acked`` may or may not be gone; ``settled`` is.
    """

    tried: list[list[int]] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)

    @classmethod
    def parse(cls, lines: Iterable[str]) -> History:
        """Read what a writer printed; a torn last line is left out."""
        history = cls()
        for line in lines:
            if not line.endswith("\n"):
                break
            kind, *numbers = line.split()
            history.add(kind, [int(number) for number in numbers])
        return history

    def add(self, kind: str, numbers: list[int]) -> None:
        if kind == "try":
            self.tried.append(numbers)
        elif kind == "ok":
            self.stored.update(numbers)
        elif kind == "ack":
            self.acked.update(numbers)
        elif kind == "settled":
            self.settled = set(self.acked)

    def problems(self, found: list[int], *, damaged: int = 0) -> list[str]:
        """Return what is wrong with the records that were found; nothing when all is well."""
        there = set(found)
        tried = {number for call in self.tried for number in call}
        wrong = []
        if lost := self.stored - self.acked - there:
            wrong.append(f"lost {sorted(lost)[:10]}")
        if invented := there - tried:
            wrong.append(f"invented {sorted(invented)[:10]}")
        if returned := there & self.settled:
            wrong.append(f"returned although settled {sorted(returned)[:10]}")
        if len(found) != len(there):
            wrong.append("returned twice")
        if damaged:
            wrong.append(f"{damaged} said to be damaged")
        for call in self.tried:
            kept = there.intersection(call)
            if kept and len(kept) + len(self.acked.intersection(call) - kept) < len(call):
                wrong.append(f"stored a part of one call {call}: {sorted(kept)}")
        return wrong


def drain(spool: BlockingSpool, consumer: str = "send") -> list[int]:
    """Claim and ack everything a consumer can have, and return the numbers."""
    numbers = []
    while lanes := spool.lanes(consumer):
        for lane in lanes:
            records = spool.claim(consumer, 500, lane)
            assert [found.position for found in records] == sorted(found.position for found in records)
            numbers += [number_of(found.payload) for found in records]
            spool.ack(consumer, records)
    spool.settle()
    return numbers
