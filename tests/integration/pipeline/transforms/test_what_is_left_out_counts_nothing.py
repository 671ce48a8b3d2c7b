"""Deliveries that are left out as plainly done change nothing that level two finds, whatever is told of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bus.domain.identity import new_id
from pipeline.session import few_rows
from pipeline.transforms.accounting import concluded, counted, listed
from pipeline.transforms.blocks import Allowance, events_of, ledger_of, parsed
from pipeline.transforms.hearing import OPEN, Patience, state_at, with_front
from pipeline.transforms.ledgers import ACCEPT, DELIVER, EQUAL, HOPS, PUBLISH, compared
from pipeline.transforms.screening import suspected, suspects
from pipeline.transforms.stored import Store, beside_store, unwitnessed
from pipeline.transforms.witnesses import near
from tests.harness.accounts import look_into, moment, witness
from tests.harness.trace_lines import Event, accepted, block, ledger, published, sent, settled

NOW = 1_763_700_000_000
DAY = 24 * 3_600_000
FINAL = NOW - 8 * DAY
TIMES = (NOW - 60_000, NOW - 3_600_000, FINAL, FINAL - 3 * DAY)
PATIENCE = Patience(allowance=600, horizon=7 * 24 * 3600)
NAMES = ("a", "b", "c")
TOLD = ("delivered", "skipped", "canceled", "dead", "parked", "retrying")
STORED = (*TOLD, "pending", "resend")


class World:
    """Messages in many small buckets: most of them plain, the others with anything told of them."""

    def __init__(self, seed: int, destinations: int) -> None:
        self._random = random.Random(seed)
        self._ids = [new_id(TIMES[2])]
        self.events: list[Event] = []
        self.ledger: list[Event] = []
        self.rows: list[dict[str, Any]] = []
        self.due: list[tuple[str, str]] = []
        self.retention: dict[str, int] = {}
        self.paused: dict[tuple[str, str], str] = {}
        for place in range(destinations):
            self._fill(f"d{place}")

    def witness(self, spark: SparkSession) -> Store:
        return witness(spark, self.rows, retention=self.retention, paused=self.paused, due=self.due)

    def _is(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self) -> list[str]:
        return self._random.sample(NAMES, self._random.randint(0, 3))

    def _fill(self, destination: str) -> None:
        pick = self._random.choice
        self.retention[destination] = pick([30, 7, 1])
        if self._is(0.2):
            self.paused[destination, pick(["", *NAMES])] = "paused"
        start, emits, wildness = pick(TIMES), self._is(0.5), self._random.random() * 0.6
        for place in range(self._random.randint(1, 6)):
            at = start + place
            message_id = pick(self._ids) if self._is(0.02) else new_id(at)  # one id for two destinations
            self._ids.append(message_id)
            add = self._add_any if self._is(wildness) else self._add_plain
            add(destination, message_id, at, emits=emits)

    def _add_plain(self, destination: str, message_id: str, at: int, *, emits: bool) -> None:
        names = self._some()
        told = [sent(at, id=message_id)] if emits and self._is(0.97) else []
        if self._is(0.97):
            told.append({**accepted(at + 5, id=message_id), "expected": names})
        told.append(published(at + 10, id=message_id))
        told += [settled(at + 20, id=message_id, subscription=name, attempt_id=name) for name in names]
        self._tell(destination, told)
        archived = self._is(0.2)
        self.rows += [
            {"id": message_id, "destination": destination, "subscription": name, "archived": archived} for name in names
        ]

    def _add_any(self, destination: str, message_id: str, at: int, *, emits: bool) -> None:
        pick = self._random.choice
        whole = [
            sent(at, id=message_id),
            {**accepted(at + 5, id=message_id), "expected": self._some()},
            published(at + 10, id=message_id, status=pick(["confirmed", "failed"])),
            {**sent(at + 11, id=message_id), "stage": "handed", "subscription": pick(["", *NAMES])},
        ]
        told = [event for event in whole if self._is(0.6) and (emits or event["stage"] != "sent")]
        for name in [*self._some(), *self._some(), *([""] if self._is(0.05) else [])]:
            end = {"status": pick(TOLD), "generation": pick([0, 0, 1, 2]), "attempt_id": f"{name}{len(told)}"}
            told.append(settled(pick([at + 20, NOW - 1_000]), id=message_id, subscription=name, **end))
        if told and self._is(0.3):
            told.append(pick(told))
        self._tell(destination, told if self._is(0.9) else [], lost=0.4 if self._is(0.2) else 0)
        for name in [*self._some(), *(self._some() if self._is(0.2) else [])]:
            row: dict[str, Any] = {"status": pick(STORED), "generation": pick([0, 0, 1, 2]), "archived": self._is(0.3)}
            row |= {"reason": pick(["", "", "why"]), "owned": self._is(0.3), "at": moment(pick([at, NOW - 1_000]))}
            row |= {"deliver_at": pick([None, None, moment(NOW)]), **pick([{}, {"attempts": []}])}
            self.rows.append({"id": message_id, "destination": destination, "subscription": name, **row})
        if self._is(0.1):
            self.due.append((message_id, pick(["", *NAMES])))

    def _tell(self, destination: str, told: list[Event], *, lost: float = 0) -> None:
        """Add events, and what the ledger has of them; some of either is ``lost``."""
        placed = [{**event, "destination": destination} for event in told]
        self.events += [event for event in placed if not self._is(lost)]
        self.ledger += [event for event in placed if not self._is(lost)]


@pytest.fixture(scope="module")
def world() -> World:
    return World(1, 250)


@pytest.mark.parametrize(
    ("hops", "with_store"),
    [
        (HOPS, True),
        pytest.param((DELIVER,), True, marks=pytest.mark.proof),
        pytest.param((ACCEPT, PUBLISH), True, marks=pytest.mark.proof),
        pytest.param(HOPS, False, marks=pytest.mark.proof),
    ],
)
def test_what_is_left_out_changes_no_finding_count_or_verdict(
    spark: SparkSession, world: World, hops: Collection[str], *, with_store: bool
) -> None:
    line = block(world.events, ledger=ledger(world.ledger))
    read = parsed(spark.createDataFrame([(line, moment(NOW))], "value string, arrived timestamp"))
    store = world.witness(spark) if with_store else None
    with few_rows(spark):
        events, buckets = events_of(read, Allowance()).localCheckpoint(), _buckets(ledger_of(read), store)
        buckets = buckets.localCheckpoint()
        judged = buckets.where(F.col("hop").isin(*hops) & (F.col("state") != OPEN))
        differing = judged.where((F.col("compared") != EQUAL) | F.col("opened")).localCheckpoint()
        seen = near(events, differing)
        found = suspects(seen, store.deliveries if store is not None else None, differing, hops).localCheckpoint()
        left = store._replace(deliveries=suspected(store.deliveries, found)) if store is not None else None
        how = (differing, moment(NOW), PATIENCE.allowance)
        every = look_into(seen, store, *how).localCheckpoint()
        looked_at = look_into(suspected(events, found), left, *how).localCheckpoint()
        assert _rows(concluded(buckets, counted(looked_at))) == _rows(concluded(buckets, counted(every)))
        assert _rows(listed(looked_at)) == _rows(listed(every))
        assert looked_at.count() < every.count()


def _buckets(rows: DataFrame, store: Store | None) -> DataFrame:
    buckets = compared(rows)
    seen = unwitnessed(buckets) if store is None else beside_store(buckets, store, moment(FINAL), moment(NOW))
    return with_front(seen, PATIENCE).withColumn("state", state_at(moment(NOW), PATIENCE))


def _rows(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(row) for row in frame.collect())
