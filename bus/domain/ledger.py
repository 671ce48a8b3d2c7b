"""The audit ledger: of each stage how many messages, and checksums of their ids.

Equal counts with unequal checksums mean that something was lost and something else doubled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import xxhash

from bus.domain.delivery import Status
from bus.domain.events import CONFIRMED, LedgerRow, Stage, TraceEvent
from bus.domain.identity import id_time

EXPECTED: Final = "expected"
_SEED: Final = 42
_MINUTE: Final = 60_000
_BASE: Final = math.log(1.04)
_MOMENT: Final = 11  # characters of an id that tell a quarter of a second
_MODULUS: Final = 2**64
_SIGN: Final = 2**63
_OUTCOMES: Final[frozenset[str]] = frozenset(
    (Status.DELIVERED, Status.SKIPPED, Status.CANCELED, Status.PARKED, Status.DEAD)
)
_hash: Final = xxhash.xxh64_intdigest

_SETTLED: Final = Stage.SETTLED
_PUBLISHED: Final = Stage.PUBLISHED
_HANDED: Final = Stage.HANDED

_Key = tuple[str, str, str, int]
_Group = tuple[str, tuple[str, ...], int]


def fingerprint(message_id: str) -> int:
    """Return the signed 64-bit XXH64 (seed 42) of an id, as Spark's ``xxhash64(id)`` gives it."""
    return _signed(_hash(message_id.encode(), _SEED))


def bucket_of(microseconds: int) -> int:
    """Return the bucket of a latency; each is 4 % wide, so that its upper end 1.04^n is off by 4 % at most."""
    return math.ceil(math.log(microseconds) / _BASE) if microseconds > 1 else 0


def minute_of(message_id: str) -> int:
    """Return the start (ms) of the minute that an id tells: every stage puts a message into the same one."""
    time = id_time(message_id)
    return time - time % _MINUTE


class _Sums:
    """What was added to one bucket; hashes are unsigned here."""

    __slots__ = ("count", "latency", "sum", "xor")

    def __init__(self) -> None:
        self.count = 0
        self.xor = 0
        self.sum = 0
        self.latency: dict[int, int] = {}

    def add(self, number: int) -> None:
        self.count += 1
        self.xor ^= number
        self.sum += number

    def merge(self, other: _Sums) -> None:
        self.count += other.count
        self.xor ^= other.xor
        self.sum += other.sum


class _Traits(dict[str, tuple[int, int]]):
    """Hash and minute by message id: the stages of a message often meet in one block, as do ids of one moment."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[str, int | None] = {}

    def __missing__(self, message_id: str) -> tuple[int, int]:
        moment = message_id[:_MOMENT]
        if moment not in self._minutes:
            first, last = (minute_of(f"{moment}{digits}") for digits in ("00", "ff"))
            self._minutes[moment] = first if first == last else None
        minute = self._minutes[moment]
        if minute is None:
            minute = minute_of(message_id)
        found = self[message_id] = (_hash(message_id.encode(), _SEED), minute)
        return found


def ledger_of(events: Iterable[TraceEvent]) -> list[LedgerRow]:
    """Return what events add to the ledger, a row for each bucket, in the order of the buckets.

    Rows of the same bucket, of any blocks, add up: counts and sums by addition, ``xor`` by exclusive or.
    """
    traits = _Traits()
    sums: defaultdict[_Key, _Sums] = defaultdict(_Sums)
    # One update for all that a message expects; most messages of a destination expect the same subscriptions.
    expected: defaultdict[_Group, _Sums] = defaultdict(_Sums)
    for event in events:
        stage: str = event.stage
        if stage is _HANDED:
            continue
        if stage is _SETTLED:
            stage = event.status
            if stage not in _OUTCOMES:
                continue
        elif stage is _PUBLISHED and event.status != CONFIRMED:
            continue
        number, minute = traits[event.id]
        bucket = sums[stage, event.destination, event.subscription, minute]
        bucket.add(number)
        if event.latency_us >= 0:
            place = bucket_of(event.latency_us)
            bucket.latency[place] = bucket.latency.get(place, 0) + 1
        if event.expected:
            expected[event.destination, event.expected, minute].add(number)
    for (destination, names, minute), together in expected.items():
        for name in names:
            sums[EXPECTED, destination, name, minute].merge(together)
    return [_row(key, sums[key]) for key in sorted(sums)]


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
