"""The audit ledger: of each stage how many messages, and checksums of their ids.

Equal counts with unequal checksums mean that something was lost and something else doubled.
"""

from __future__ import annotations

import math
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
_MODULUS: Final = 2**64
_SIGN: Final = 2**63
_OUTCOMES: Final[frozenset[str]] = frozenset(
    (Status.DELIVERED, Status.SKIPPED, Status.CANCELED, Status.PARKED, Status.DEAD)
)
_hash: Final = xxhash.xxh64_intdigest

_Key = tuple[str, str, str, int]


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

    def merge(self, other: _Sums) -> None:
        self.count += other.count
        self.xor ^= other.xor
        self.sum += other.sum


def ledger_of(events: Iterable[TraceEvent]) -> list[LedgerRow]:
    """Return what events add to the ledger, a row for each bucket, in the order of the buckets.

    Rows of the same bucket, of any blocks, add up: counts and sums by addition, ``xor`` by exclusive or.
    """
    sums: dict[_Key, _Sums] = {}
    expected: dict[tuple[str, tuple[str, ...], int], _Sums] = {}
    for event in events:
        stage = _stage_of(event)
        if stage is None:
            continue
        minute = minute_of(event.id)
        key = (stage, event.destination, event.subscription, minute)
        bucket = sums.get(key)
        if bucket is None:
            bucket = sums[key] = _Sums()
        number = _hash(event.id.encode(), _SEED)
        _add(bucket, number)
        if event.latency_us >= 0:
            place = bucket_of(event.latency_us)
            bucket.latency[place] = bucket.latency.get(place, 0) + 1
        if event.expected:
            # One update for all of them; most messages of a destination expect the same subscriptions.
            group = (event.destination, event.expected, minute)
            together = expected.get(group)
            if together is None:
                together = expected[group] = _Sums()
            _add(together, number)
    _expand(expected, sums)
    return [_row(key, sums[key]) for key in sorted(sums)]


def _stage_of(event: TraceEvent) -> str | None:
    """Return the ledger's stage that an event counts in; None for none."""
    stage = event.stage
    if stage is Stage.SETTLED:
        return event.status if event.status in _OUTCOMES else None
    if stage is Stage.PUBLISHED:
        return stage if event.status == CONFIRMED else None
    return None if stage is Stage.HANDED else stage


def _add(bucket: _Sums, number: int) -> None:
    bucket.count += 1
    bucket.xor ^= number
    bucket.sum += number


def _expand(expected: dict[tuple[str, tuple[str, ...], int], _Sums], sums: dict[_Key, _Sums]) -> None:
    """Give each expected subscription its own bucket."""
    for (destination, names, minute), together in expected.items():
        for name in names:
            key = (EXPECTED, destination, name, minute)
            if key not in sums:
                sums[key] = _Sums()
            sums[key].merge(together)


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
