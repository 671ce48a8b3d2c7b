"""``reconcile``: proves from events, ledger and store that nothing was lost, or says exactly what.

Buckets whose two sides of the ledger are equal, and agree with the store, are proven without reading single deliveries.
For the others, events and store are compared for each delivery. A run writes only what has changed since the last one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.schemas import BLOCKS, EVENTS, FINDINGS, LEDGER, PROOFS
from pipeline.session import SMALL, few_rows
from pipeline.transforms.accounting import COUNTED, HELD, MISSING, STORE_BEHIND, accounted, concluded, counted, listed
from pipeline.transforms.hearing import OPEN, Patience, broken_off, heard, state_at, watermark_of, with_front
from pipeline.transforms.ledgers import DELIVER, EQUAL, KEY, compared
from pipeline.transforms.proofs import compared_with, in_force, latest
from pipeline.transforms.screening import suspected, suspects
from pipeline.transforms.stored import Store, beside_store, unwitnessed
from pipeline.transforms.witnesses import near, said_by_events, said_by_store, with_last_word

VERSION: Final = 1
LINE: Final = f"reconcile-v{VERSION}"
# Clocks of hosts differ, so events are read from so long before the time of their message's id.
_DRIFT: Final = dt.timedelta(days=1)
# What events and store say of a message with some subscriptions, each delivered at the second attempt.
_ROWS_OF_A_MESSAGE: Final = 20
_SUMS: Final = ("expected", "settled", "delivered", "skipped", "canceled", "dead", "parked", *COUNTED)
_MORE_SUMS: Final = ("unannounced", "duplicates", "resent")


class Plan(NamedTuple):
    """The inputs of a run.

    Attributes
    ----------
    now
        When it runs; what it writes is named by this.
    since, before
        The range of the messages' minutes, ``before`` exclusive, both the start of a minute: for a part of a minute,
        ledger and store would not agree. None for all that there is.
    patience
        How long it waits for events and for deliveries.
    complete
        Whether the lake is known to have all that was emitted until ``now``. Else what was emitted after the last
        block in the lake may still be on its way.
    screens
        Whether deliveries that are plainly done are left out before each is looked at: one more pass over the events,
        which pays where there are millions.
    """

    now: dt.datetime
    since: dt.datetime | None = None
    before: dt.datetime | None = None
    patience: Patience = Patience()
    complete: bool = False
    screens: bool = False


class Proof(NamedTuple):
    """The result of a run.

    Attributes
    ----------
    buckets
        Every bucket of the range, with its state and verdict (``schemas.PROOFS`` without ``checked``).
    findings
        Deliveries of these that are not simply done (``schemas.FINDINGS`` with ``state``, without ``checked``).
    emitters
        Those with events (``transforms.hearing.heard``), with the gaps that may be of the range: an event is
        emitted after its message's id was made.
    broken_off
        Those of them that are gone and did not end (``transforms.hearing.broken_off``).
    watermark
        Up to when the events of all live emitters were read; None without any.
    news
        How many buckets changed, and were written.
    """

    buckets: DataFrame
    findings: DataFrame
    emitters: list[Row]
    broken_off: list[Row]
    watermark: dt.datetime | None
    news: int


@contextmanager
def reconciled(spark: SparkSession, lake: Lake, plan: Plan, store: Store | None = None) -> Iterator[Proof]:
    """Run, write what has changed into the lake, and yield the proof, whose frames are valid in the ``with`` block."""
    with ExitStack() as frames:
        if store is not None and plan.screens:
            store = store._replace(deliveries=_kept(frames, store.deliveries))  # else it is read three times
        emitters = heard(lake.read(spark, BLOCKS, line=READ_LINE), _begin(plan)).collect()
        ledger = lake.read(spark, LEDGER, line=READ_LINE, since=plan.since, before=plan.before)
        buckets = _kept(frames, _buckets(ledger, store, emitters, plan))
        found = _looked_into(frames, lake, buckets, plan, store)
        rows = concluded(buckets, counted(found.deliveries) if found is not None else None)
        before = latest(lake.read(spark, PROOFS, line=LINE, since=plan.since, before=plan.before))
        judged = _kept(frames, compared_with(rows, before))
        findings = _kept(frames, found.findings()) if found is not None else lake.rows(spark, FINDINGS, ())
        news = _write(lake, judged.where("news"), findings, plan)
        states = F.broadcast(judged.select(*KEY, "state"))
        told = findings.join(states, list(KEY))
        broken = broken_off(emitters, plan.patience, _begin(plan), plan.now if plan.complete else None)
        yield Proof(judged, told, emitters, broken, _heard_until(emitters, plan), news)


def totals(proof: Proof) -> list[Row]:
    """Return sums for each hop, state and verdict, with the ``first`` and the ``last`` minute."""
    sums = [F.sum(name).alias(name) for name in (*_SUMS, *_MORE_SUMS)]
    sums += [F.min("minute").alias("first"), F.max("minute").alias("last")]
    return proof.buckets.groupBy("hop", "state", "verdict").agg(F.count("*").alias("buckets"), *sums).collect()


def missing(proof: Proof) -> DataFrame:
    """Return the deliveries, and the messages that no receiver accepted, of which nothing is known."""
    return _found(proof, MISSING)


def contradicted(proof: Proof) -> DataFrame:
    """Return the deliveries for which events report an end that the store does not have."""
    return _found(proof, STORE_BEHIND)


def held(proof: Proof, destinations: Sequence[str]) -> DataFrame:
    """Return the deliveries of some destinations that wait on a transport, as far as events and store can say."""
    found = _found(proof, HELD)
    return found.where((F.col("hop") == DELIVER) & F.col("destination").isin(*destinations))


def _found(proof: Proof, finding: str) -> DataFrame:
    return proof.findings.where(F.col("finding") == finding).orderBy("destination", "subscription", "id")


def read_proofs(spark: SparkSession, lake: Lake) -> tuple[DataFrame, DataFrame]:
    """Return the buckets in force, and their findings."""
    buckets = latest(lake.read(spark, PROOFS, line=LINE))
    return buckets, in_force(lake.read(spark, FINDINGS, line=LINE), buckets)


def _heard_until(emitters: list[Row], plan: Plan) -> dt.datetime | None:
    found = watermark_of(emitters, plan.patience)
    if plan.complete:
        return plan.now
    return found and min(found.astimezone(dt.UTC), plan.now)


def _buckets(ledger: DataFrame, store: Store | None, emitters: list[Row], plan: Plan) -> DataFrame:
    """Return the buckets of the range; all are open when no emitter has events."""
    buckets = compared(ledger)
    begun = min((each["first"].astimezone(dt.UTC) for each in emitters), default=plan.now)
    seen = unwitnessed(buckets) if store is None else beside_store(buckets, store, begun, plan.now)
    watermark = _heard_until(emitters, plan) or dt.datetime.fromtimestamp(0, dt.UTC)
    return with_front(seen, plan.patience).withColumn("state", state_at(watermark, plan.patience))


class _KnownDeliveries(NamedTuple):
    """The deliveries of the buckets that differ, and the events about these."""

    deliveries: DataFrame
    events: DataFrame

    def findings(self) -> DataFrame:
        lost = F.col("finding").isin(MISSING, STORE_BEHIND)
        traced = with_last_word(self.deliveries.where(lost), self.events)
        return listed(traced.unionByName(self.deliveries.where(~lost)))


def _looked_into(
    frames: ExitStack, lake: Lake, buckets: DataFrame, plan: Plan, store: Store | None
) -> _KnownDeliveries | None:
    """Look at single deliveries of the buckets that differ; None when none does, as where nothing went wrong."""
    differing = buckets.where((F.col("state") != OPEN) & ((F.col("compared") != EQUAL) | F.col("opened")))
    hops = [row.hop for row in differing.select("hop").distinct().collect()]
    if not hops:
        return None
    events = lake.read(buckets.sparkSession, EVENTS, line=READ_LINE, since=_begin(plan))
    seen = _DeliverySources(near(events, differing), store.deliveries if store is not None else None)
    if plan.screens:
        seen = _screened(frames, seen, events, differing, hops)
    events = _kept(frames, seen.events)
    words = said_by_events(events, differing)
    if seen.stored is not None:
        words = words.unionByName(said_by_store(seen.stored, differing))
    due = store.due if store is not None else None
    return _KnownDeliveries(_kept(frames, accounted(words, differing, due, plan.now, plan.patience.allowance)), events)


class _DeliverySources(NamedTuple):
    """The sources of deliveries: events, and the store's deliveries where it was asked."""

    events: DataFrame
    stored: DataFrame | None


def _screened(
    frames: ExitStack, seen: _DeliverySources, events: DataFrame, differing: DataFrame, hops: list[str]
) -> _DeliverySources:
    """Leave out what is about messages that are plainly done; few are left, unless emitters lost much."""
    found = _kept(frames, suspects(seen.events, seen.stored, differing, hops))
    count = found.count()
    if count < SMALL:
        found = F.broadcast(found)
    if count * _ROWS_OF_A_MESSAGE < SMALL:
        frames.enter_context(few_rows(differing.sparkSession))
    return _DeliverySources(
        suspected(events, found), suspected(seen.stored, found) if seen.stored is not None else None
    )


def _kept(frames: ExitStack, frame: DataFrame) -> DataFrame:
    """Have Spark keep what a frame has until the stack is left."""
    frames.callback(frame.unpersist)
    return frame.persist()


def _begin(plan: Plan) -> dt.datetime | None:
    return plan.since and plan.since - _DRIFT


def _write(lake: Lake, news: DataFrame, findings: DataFrame, plan: Plan) -> int:
    """Publish what is news, and return how many buckets that is."""
    commit = lake.begin(LINE, f"{int(plan.now.timestamp() * 1000):015d}")
    if commit is None:
        return 0
    checked = {"checked": F.lit(plan.now)}
    commit.stage(PROOFS, news.withColumns(checked), files=1)
    count = sum(file.rows for file in commit.staged(PROOFS))
    if not count:
        commit.abandon()
        return 0
    about = findings.join(F.broadcast(news.select(*KEY)), list(KEY), "left_semi")
    commit.stage(FINDINGS, about.withColumns(checked), files=1)
    lake.publish(commit)
    return count
