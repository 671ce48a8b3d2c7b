"""Level one of the proof: per bucket, the audit ledger's expected deliveries against its settled ones.

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
HOPS: Final = (ACCEPT, PUBLISH, DELIVER)
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


class Sums(NamedTuple):
    """Count, XOR and sum (modulo 2^64) of one side of a bucket."""

    number: Column
    xor: Column
    total: Column

    def equals(self, other: Sums) -> Column:
        """Whether both are of the same ids."""
        return (self.number == other.number) & (self.xor == other.xor) & (self.total == other.total)

    @property
    def print(self) -> Column:
        """One hash of all three."""
        return F.xxhash64(*self)


def compared(ledger: DataFrame) -> DataFrame:
    """Return a row for each bucket of a ledger (``schemas.LEDGER``): its counts, and how its sides compare.

    ``compared`` is ``equal``; ``ended`` when the sides are equal once dead and parked deliveries count; ``short`` or
    ``over`` when fewer or more came than were expected; ``mixed`` for equal counts with other checksums. Where no
    producer emits, nothing was expected to be accepted, and there is no bucket. ``kept_print`` stands for the ids that
    a store must have of it (``Sums.print``): the settled deliveries, and of the hop to the transports the accepted
    messages.
    """
    sides = ledger.select("stage", "destination", "subscription", "minute", "count", "xor", "sum", _place().alias("at"))
    flat = sides.where(F.col("at").isNotNull()).select("*", F.inline("at")).drop("at")
    sums = flat.groupBy(*KEY).agg(*_totals(), *[_of_stage(name) for name in (*CLOSED, *ENDED)])
    expected, settled, ended = sums_of(_EXPECTED), sums_of(_SETTLED), sums_of(_ENDED)
    fingerprint = F.xxhash64(*[column for side in (expected, settled, ended) for column in side])
    return sums.where((F.col("hop") != ACCEPT) | (expected.number > 0)).select(
        *KEY,
        expected.number.alias("expected"),
        settled.number.alias("settled"),
        *CLOSED,
        *ENDED,
        _comparison(expected, settled, ended).alias("compared"),
        F.when(F.col("hop") == PUBLISH, expected.print).otherwise(settled.print).alias("kept_print"),
        fingerprint.alias("fingerprint"),
    )


def _place() -> Column:
    """Return the hops that a row of the ledger belongs to, and its side there."""
    places = F.lit(None)
    for stage, found in _PLACES.items():
        here = F.array(*[F.struct(F.lit(hop).alias("hop"), F.lit(side).alias("side")) for hop, side in found])
        places = F.when(F.col("stage") == stage, here).otherwise(places)
    return places


def summed(name: str, inside: Column, count: Column, xor: Column, total: Column) -> list[Column]:
    """Return aggregates that add up the rows ``inside`` as one side of a bucket; ``sums_of`` reads the sums.

    A sum of 64 bits may overflow, which is an error in Spark, so its halves are added up separately.
    """
    halves = {"high": F.shiftright(total, 32), "low": total.bitwiseAND(F.lit(_LOW))}
    return [
        F.sum(F.when(inside, count).otherwise(0)).alias(f"{name}_count"),
        F.coalesce(F.bit_xor(F.when(inside, xor)), F.lit(0)).alias(f"{name}_xor"),
        *[F.sum(F.when(inside, half).otherwise(0)).alias(f"{name}_{part}") for part, half in halves.items()],
    ]


def sums_of(name: str) -> Sums:
    """Return the sums of a side that ``summed`` added up."""
    low = F.col(f"{name}_low")
    high = F.shiftleft(F.col(f"{name}_high") + F.shiftright(low, 32), 32)
    return Sums(F.col(f"{name}_count"), F.col(f"{name}_xor"), high.bitwiseOR(low.bitwiseAND(F.lit(_LOW))))


def _totals() -> list[Column]:
    """Return the aggregates of each side; ``ended`` includes what is settled."""
    sides = {_EXPECTED: (_EXPECTED,), _SETTLED: (_SETTLED,), _ENDED: (_SETTLED, _ENDED)}
    figures = (F.col("count"), F.col("xor"), F.col("sum"))
    return [column for name, of in sides.items() for column in summed(name, F.col("side").isin(*of), *figures)]


def _of_stage(stage: str) -> Column:
    return F.sum(F.when(F.col("stage") == stage, F.col("count")).otherwise(0)).alias(stage)


def _comparison(expected: Sums, settled: Sums, ended: Sums) -> Column:
    return (
        F.when(expected.equals(settled), EQUAL)
        .when(expected.equals(ended), ENDED_VISIBLY)
        .when(expected.number == settled.number, MIXED)
        .when(expected.number > settled.number, SHORT)
        .otherwise(OVER)
    )
