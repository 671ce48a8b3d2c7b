"""The audit ledger: of each stage how many messages, and checksums of their ids.

Equal counts with unequal checksums mean that something was lost and something else doubled.
"""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import xxhash

from bus.domain.delivery.delivery import Status
from bus.domain.identity import id_time
from bus.domain.tracing.events import CONFIRMED, LedgerRow, Stage, TraceEvent

EXPECTED: Final = "expected"
_SEED: Final = 42
_MINUTE: Final = 60_000
_BASE: Final = math.log(1.04)
_MOMENT: Final = 11  # characters of an id that identify a quarter of a second
_MODULUS: Final = 2**64
_SIGN: Final = 2**63
_OUTCOMES: Final[frozenset[str]] = frozenset(
    (Status.DELIVERED, Status.SKIPPED, Status.CANCELED, Status.PARKED, Status.DEAD)
)
_hash: Final = xxhash.xxh64_intdigest

_Key = tuple[str, str, str, int]
_Kind = tuple[Stage, str, str, str, tuple[str, ...]]


def fingerprint(message_id: str) -> int:
    """Return the signed 64-bit XXH64 (seed 42) of an id, as Spark's ``xxhash64(id)`` gives it."""
    return _signed(_hash(message_id.encode(), _SEED))


def bucket_of(microseconds: int) -> int:
    """Return the bucket of a latency; each is 4 % wide, so that its upper end 1.04^n is off by 4 % at most."""
    return math.ceil(math.log(microseconds) / _BASE) if microseconds > 1 else 0


def minute_of(message_id: str) -> int:
    """Return the start (ms) of the minute in an id: every stage puts a message into the same one."""
    time = id_time(message_id)
    return time - time % _MINUTE


class _Sums:
    """Additions to one bucket; hashes are unsigned here."""

    __slots__ = ("count", "latency", "sum", "xor")

    def __init__(self) -> None:
        self.count = 0
        self.xor = 0
        self.sum = 0
        self.latency: dict[int, int] = {}

    def add(self, numbers: Sequence[int]) -> None:
        self.count += len(numbers)
        self.xor = reduce(operator.xor, numbers, self.xor)
        self.sum += sum(numbers)

    def time(self, latencies: Sequence[int]) -> None:
        for microseconds, count in Counter(latencies).items():
            place = bucket_of(microseconds)
            self.latency[place] = self.latency.get(place, 0) + count


class _Hashes(dict[str, int]):
    """Hash by message id, each made once: events of several stages of a message are often in one block."""

    def __missing__(self, message_id: str) -> int:
        found = self[message_id] = _hash(message_id.encode(), _SEED)
        return found


class _Minutes(dict[str, int | None]):
    """Minute by the first ``_MOMENT`` characters of ids; None for those that occur in two minutes."""

    def __missing__(self, moment: str) -> int | None:
        first, last = (minute_of(f"{moment}{digits}") for digits in ("00", "ff"))
        found = self[moment] = first if first == last else None
        return found

    def parts(self, events: Sequence[TraceEvent]) -> Iterable[tuple[int, Sequence[TraceEvent]]]:
        """Group events by the minutes of their ids."""
        ids = [event.id for event in events]
        minute = self[min(ids)[:_MOMENT]]
        if minute is not None and minute == self[max(ids)[:_MOMENT]]:
            return ((minute, events),)
        parts: defaultdict[int, list[TraceEvent]] = defaultdict(list)
        for event in events:
            minute = self[event.id[:_MOMENT]]
            parts[minute_of(event.id) if minute is None else minute].append(event)
        return parts.items()


def ledger_of(events: Iterable[TraceEvent]) -> list[LedgerRow]:
    """Return the additions of events to the ledger, a row for each bucket, in the order of the buckets.

    Rows of the same bucket, of any blocks, add up: counts and sums by addition, ``xor`` by exclusive or.
    """
    # Alike events are gathered first and added up together: all that is left to do for each is one look-up.
    alike: defaultdict[_Kind, list[TraceEvent]] = defaultdict(list)
    for event in events:
        alike[event.stage, event.status, event.destination, event.subscription, event.expected].append(event)
    hashes, minutes = _Hashes(), _Minutes()
    sums: defaultdict[_Key, _Sums] = defaultdict(_Sums)
    for (stage, status, destination, subscription, expected), gathered in alike.items():
        entry = _entry(stage, status)
        if not entry:
            continue
        for minute, part in minutes.parts(gathered):
            numbers = [hashes[event.id] for event in part]
            bucket = sums[entry, destination, subscription, minute]
            bucket.add(numbers)
            bucket.time([event.latency_us for event in part if event.latency_us >= 0])
            for name in expected:
                sums[EXPECTED, destination, name, minute].add(numbers)
    return [_row(key, sums[key]) for key in sorted(sums)]


def _entry(stage: Stage, status: str) -> str:
    """Return the ledger's stage of an event; empty for one that it does not count."""
    if stage is Stage.SETTLED:
        return status if status in _OUTCOMES else ""
    if stage is Stage.HANDED or (stage is Stage.PUBLISHED and status != CONFIRMED):
        return ""
    return stage


def _row(key: _Key, bucket: _Sums) -> LedgerRow:
    stage, destination, subscription, minute = key
    return LedgerRow(
        stage=stage,
        destination=destination,
        subscription=subscription,
        minute=minute,
        count=bucket.count,
        xor=_signed(bucket.xor),
        sum=_signed(bucket.sum),
        latency=bucket.latency,
    )


def _signed(number: int) -> int:
    return (number + _SIGN) % _MODULUS - _SIGN
