"""Level one of the proof: what the audit ledger says was to come, against what it says came, bucket by bucket.

A bucket is a hop, a destination, a subscription and the minute of the messages' ids. Its two sides are equal when
count, XOR and sum of the ids' hashes are: equal counts with other checksums mean that some are missing and others
were counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KEY: Final = ("hop", "destination", "subscription", "minute")
ACCEPT: Final = "accept"
PUBLISH: Final = "publish"
DELIVER: Final = "deliver"
CLOSED: Final = ("delivered", "skipped", "canceled")
ENDED: Final = ("dead", "parked")

EQUAL: Final = "equal"
ENDED_VISIBLY: Final = "ended"
SHORT: Final = "short"
OVER: Final = "over"
MIXED: Final = "mixed"

_EXPECTED, _SETTLED, _ENDED = "expected", "settled", "ended"
_PLACES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "sent": ((ACCEPT, _EXPECTED),),
    "accepted": ((ACCEPT, _SETTLED), (PUBLISH, _EXPECTED)),
    "published": ((PUBLISH, _SETTLED),),
    "expected": ((DELIVER, _EXPECTED),),
    **dict.fromkeys(CLOSED, ((DELIVER, _SETTLED),)),
    **dict.fromkeys(ENDED, ((DELIVER, _ENDED),)),
}
_LOW: Final = 2**32 - 1


class _Sums(NamedTuple):
    """Count, XOR and sum (modulo 2^64) of one side of a bucket."""

    number: Column
    xor: Column
    total: Column

    def equals(self, other: _Sums) -> Column:
        return (self.number == other.number) & (self.xor == other.xor) & (self.total == other.total)


def compared(ledger: DataFrame) -> DataFrame:
    """Return a row for each bucket of a ledger (``schemas.LEDGER``): its counts, and how its sides compare.

    ``compared`` is ``equal``; ``ended`` when the sides are equal once dead and parked deliveries count; ``short`` or
    ``over`` when fewer or more came than were expected; ``mixed`` for equal counts with other checksums. Where no
    producer emits, nothing was expected to be accepted, and there is no bucket.
    """
    sides = ledger.select("stage", "destination", "subscription", "minute", "count", "xor", "sum", _place().alias("at"))
    flat = sides.where(F.col("at").isNotNull()).select("*", F.inline("at")).drop("at")
    sums = flat.groupBy(*KEY).agg(*_totals(), *[_of_stage(name) for name in (*CLOSED, *ENDED)])
    expected, settled, ended = _sums(_EXPECTED), _sums(_SETTLED), _sums(_ENDED)
    fingerprint = F.xxhash64(*[column for side in (expected, settled, ended) for column in side])
    return sums.where((F.col("hop") != ACCEPT) | (expected.number > 0)).select(
        *KEY,
        expected.number.alias("expected"),
        settled.number.alias("settled"),
        *CLOSED,
        *ENDED,
        _comparison(expected, settled, ended).alias("compared"),
        fingerprint.alias("fingerprint"),
    )


def _place() -> Column:
    """Return the hops that a row of the ledger belongs to, and its side there."""
    places = F.lit(None)
    for stage, found in _PLACES.items():
        here = F.array(*[F.struct(F.lit(hop).alias("hop"), F.lit(side).alias("side")) for hop, side in found])
        places = F.when(F.col("stage") == stage, here).otherwise(places)
    return places


def _totals() -> list[Column]:
    """Return the sums of each side; ``ended`` has the settled ones too.

    A sum of 64 bits may overflow, which Spark takes for an error: its halves are added up apart.
    """
    totals = []
    for name, sides in ((_EXPECTED, (_EXPECTED,)), (_SETTLED, (_SETTLED,)), (_ENDED, (_SETTLED, _ENDED))):
        inside = F.col("side").isin(*sides)
        halves = {"high": F.shiftright("sum", 32), "low": F.col("sum").bitwiseAND(F.lit(_LOW))}
        totals += [
            F.sum(F.when(inside, F.col("count")).otherwise(0)).alias(f"{name}_count"),
            F.coalesce(F.bit_xor(F.when(inside, F.col("xor"))), F.lit(0)).alias(f"{name}_xor"),
            *[F.sum(F.when(inside, half).otherwise(0)).alias(f"{name}_{part}") for part, half in halves.items()],
        ]
    return totals


def _of_stage(stage: str) -> Column:
    return F.sum(F.when(F.col("stage") == stage, F.col("count")).otherwise(0)).alias(stage)


def _sums(side: str) -> _Sums:
    low = F.col(f"{side}_low")
    high = F.shiftleft(F.col(f"{side}_high") + F.shiftright(low, 32), 32)
    return _Sums(F.col(f"{side}_count"), F.col(f"{side}_xor"), high.bitwiseOR(low.bitwiseAND(F.lit(_LOW))))


def _comparison(expected: _Sums, settled: _Sums, ended: _Sums) -> Column:
    return (
        F.when(expected.equals(settled), EQUAL)
        .when(expected.equals(ended), ENDED_VISIBLY)
        .when(expected.number == settled.number, MIXED)
        .when(expected.number > settled.number, SHORT)
        .otherwise(OVER)
    )
