"""A proof as plain values to be shown: Spark's results, added up."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from bus.domain.catalog import Catalog
from bus.domain.destination import Ordering
from pipeline.jobs import archive
from pipeline.jobs.reconcile import Plan, Proof, contradicted, held, missing, reconciled, totals
from pipeline.lake.lake import Lake
from pipeline.reports.summary import HOPS, STATES, Bar, Finding, Findings, Gap, Summary, verdict_of
from pipeline.schemas import MESSAGES
from pipeline.sources.configuration import configured, read_catalog
from pipeline.sources.due import read_due
from pipeline.sources.store import read_messages
from pipeline.transforms.accounting import MISSING, STORE_BEHIND
from pipeline.transforms.deliveries import deliveries_of
from pipeline.transforms.ledgers import DELIVER
from pipeline.transforms.stored import Store

_MOST_BARS: Final = 240
_GRAINS: Final = {"minute": 60, "hour": 3600}


@contextmanager
def summarized(spark: SparkSession, lake: Lake, address: str | None, plan: Plan, *, charts: bool) -> Iterator[Summary]:
    """Prove, and yield the summary, whose findings can be read in the ``with`` block.

    Parameters
    ----------
    address
        Of the store as a second witness; None for none.
    charts
        Whether buckets over time are added up for a chart, too.

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    catalog = read_catalog(address) if address is not None else Catalog()
    store = _store_of(spark, lake, address, catalog, plan) if address is not None else None
    strict = [code for code, found in catalog.destinations.items() if found.ordering is Ordering.STRICT]
    with reconciled(spark, lake, plan, store) as proof:
        rows = totals(proof)
        gaps = _gaps(proof)
        lost = _Findings(missing(proof), _count(rows, MISSING))
        against = _Findings(contradicted(proof), _count(rows, STORE_BEHIND))
        yield Summary(
            verdict_of((row.asDict() for row in rows), gaps),
            _text(plan.now) or "",
            _text(proof.watermark),
            store is not None,
            len(proof.emitters),
            proof.news,
            {hop: _hop(hop, rows) for hop in HOPS},
            gaps,
            sum(each["lost_blocks"] for each in proof.emitters),
            sum(each["lost_events"] for each in proof.emitters),
            lost,
            against,
            _bars(proof, rows) if charts else [],
            _waiting(held(proof, strict)) if strict else (),
        )


def _waiting(frame: DataFrame) -> Findings:
    return _Findings(frame, frame.count())


def _count(rows: list[Row], finding: str) -> int:
    return sum(row[finding] for row in rows)


def _store_of(spark: SparkSession, lake: Lake, address: str, catalog: Catalog, plan: Plan) -> Store:
    """Return the store as a witness, with what ``archive`` took from it into the lake."""
    due = read_due(spark, address)
    kept = read_messages(spark, address, since=plan.since, before=plan.before)
    archived = lake.read(spark, MESSAGES, line=archive.LINE, since=plan.since, before=plan.before)
    deliveries = [
        deliveries_of(messages).withColumn("archived", F.lit(is_archived))
        for messages, is_archived in ((kept, False), (archived, True))
    ]
    return Store(deliveries[0].unionByName(deliveries[1]), due, *configured(spark, catalog))


def _hop(hop: str, every: list[Row]) -> dict[str, Any]:
    """Add up one hop's rows; deliveries whose announcing event was lost count as expected too."""
    rows = [row for row in every if row["hop"] == hop]
    states: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for row in rows:
        values = row.asDict()
        states[values["state"]] += values["buckets"]
        verdicts[values["verdict"]] += values["buckets"]
        sums.update({name: value for name, value in values.items() if isinstance(value, int)})
    if hop == DELIVER:
        sums["expected"] += sums["unannounced"]
    return {"states": dict(states), "verdicts": dict(verdicts), **sums}


def _bars(proof: Proof, rows: list[Row]) -> list[Bar]:
    """Return buckets over time, in minutes, hours or days, so that a chart can show them."""
    if not rows:
        return []
    seconds = (max(row["last"] for row in rows) - min(row["first"] for row in rows)).total_seconds()
    grain = next((name for name, long in _GRAINS.items() if seconds / long < _MOST_BARS), "day")
    counts = [F.sum(F.when(F.col("state") == state, 1).otherwise(0)).alias(state) for state in STATES]
    start = F.date_trunc(grain, "minute").alias("start")
    grouped = proof.buckets.groupBy(start).agg(*counts, F.sum("missing").alias("missing"))
    return [
        Bar(_text(row["start"]) or "", {name: row[name] for name in STATES}, row["missing"])
        for row in grouped.orderBy("start").collect()
    ]


class _Findings:
    """The findings of a frame, which Spark computes again for each reader, a partition at a time."""

    def __init__(self, frame: DataFrame, count: int) -> None:
        self._frame = frame
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Finding]:
        if self._count:
            yield from map(_finding, self._frame.toLocalIterator())


def _finding(row: Row) -> Finding:
    values: dict[str, Any] = {
        name: _text(value) if isinstance(value, dt.datetime) else value for name, value in row.asDict().items()
    }
    return Finding(**{name: values[name] for name in Finding.__struct_fields__})


def _gaps(proof: Proof) -> list[Gap]:
    """Return the gaps of emitters, the earliest first, and the times from which their acts are unknown."""
    between = [gap for each in proof.emitters for gap in each["gaps"]]
    gaps = [
        Gap(
            gap["emitter"],
            gap["role"],
            gap["node"],
            _text(gap["after"]),
            _text(gap["until"]),
            gap["blocks"],
            gap["lost"],
        )
        for gap in between
    ]
    ends = [Gap(each["emitter"], each["role"], each["node"], _text(each["last"]), None) for each in proof.broken_off]
    return sorted([*gaps, *ends], key=lambda gap: gap.until or gap.after or "")


def _text(time: dt.datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
