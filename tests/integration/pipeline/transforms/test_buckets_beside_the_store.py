"""Level one beside the store: it is compared with the ledger in every bucket, and only what differs is opened."""

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bus.domain.identity import new_id
from pipeline.schemas import BLOCKS
from pipeline.transforms.blocks import ledger_of, parsed
from pipeline.transforms.hearing import Patience, heard, watermark_of
from pipeline.transforms.ledgers import compared
from pipeline.transforms.stored import beside_store
from tests.harness.accounts import moment, one_message, witness
from tests.harness.trace_lines import Event, told

NOW = 1_763_700_000_000
OLD = NOW // 60_000 * 60_000 - 3_600_000
DAY = 86_400_000
LONG_AGO = OLD - 20 * DAY
BEGUN = OLD - 25 * DAY


class Planted:
    """Cases side by side, each a destination of its own; the ledger's two sides are equal in all of them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rows: list[dict[str, Any]] = []
        self.retention: dict[str, int] = {}

    def add(self, name: str, *rows: dict[str, Any], at: int = OLD, retention: int | None = 30) -> list[str]:
        """Add three delivered messages and, by the place of one of them or an id, what the store has."""
        messages = [one_message(at + place) for place in range(3)] if rows or retention else []
        self.events += [{**event, "destination": name} for message in messages for event in message]
        ids = [message[0]["id"] for message in messages]
        self.rows += [
            {"destination": name, **row, "id": ids[row["id"]] if isinstance(row["id"], int) else row["id"]}
            for row in rows
        ]
        if retention is not None:
            self.retention[name] = retention
        return ids

    def opened(self, spark: SparkSession) -> dict[str, Row]:
        """Return the buckets of deliveries by destination."""
        lines = spark.createDataFrame([(told(self.events), moment(NOW))], "value string, arrived timestamp")
        store = witness(spark, self.rows, retention=self.retention)
        seen = beside_store(compared(ledger_of(parsed(lines))), store, moment(BEGUN), moment(NOW))
        return {row.destination: row for row in seen.where("hop = 'deliver'").collect()}


ALL = [{"id": 0}, {"id": 1}, {"id": 2}]
ARCHIVED = [{**row, "archived": True} for row in ALL]


@pytest.fixture(scope="module")
def buckets(spark: SparkSession) -> dict[str, Row]:
    planted = Planted()
    planted.add("agrees", *ALL)
    planted.add("lost a row", *ALL[:2])
    planted.add("lost all", *ALL[:0])
    planted.add("has one more", *ALL, {"id": new_id(OLD + 5)})
    planted.add("has another", *ALL[:2], {"id": new_id(OLD + 5)})
    planted.add("waits", *ALL[:2], {"id": 2, "status": "pending"})
    planted.add("waits as well", *ALL, {"id": new_id(OLD + 5), "status": "pending", "attempts": []})
    planted.add("archived", *ARCHIVED)
    planted.add("archived and kept", *ARCHIVED, *ALL)
    planted.add("archived in part", *ARCHIVED[:2], ALL[2])
    planted.add("lost from the archive", *ARCHIVED[:2])
    planted.add("past its retention", *ALL[:0], at=LONG_AGO, retention=7)
    planted.add("removed", *ALL[:1], retention=None)
    for name, at in (("unheard", OLD), ("before the lake", BEGUN - DAY)):
        planted.rows.append({"id": new_id(at), "destination": name})
    planted.rows.append({"id": new_id(BEGUN - DAY), "destination": "open before the lake", "status": "pending"})
    return planted.opened(spark)


def test_only_buckets_in_which_the_store_differs_are_opened(buckets: dict[str, Row]) -> None:
    opened = {name for name, row in buckets.items() if row.opened}
    assert opened == {
        *("lost a row", "lost all", "has one more", "has another", "waits", "waits as well", "lost from the archive"),
        *("unheard", "open before the lake"),
    }


def test_buckets_that_only_the_store_knows_are_added_from_when_the_lake_begins(buckets: dict[str, Row]) -> None:
    assert {name for name, row in buckets.items() if row.compared == "unheard"} == {"unheard", "open before the lake"}
    assert "before the lake" not in buckets
    assert {row.compared for name, row in buckets.items() if name == "lost all"} == {"equal"}


def test_no_block_is_newer_than_its_arrival_whatever_its_emitters_clock_says(spark: SparkSession) -> None:
    hours = dt.timedelta(hours=2)
    now = moment(NOW)
    rows = [("right", now), ("ahead", now + hours), ("behind", now - hours)]
    blocks = spark.createDataFrame([(name, 1, now, "", "", at, 0, 0, 0, False) for name, at in rows], BLOCKS.schema)
    found = {row.emitter: row for row in heard(blocks).collect()}
    assert found["ahead"].last == found["right"].last == found["right"].arrived
    alive = [found["right"], found["ahead"]]
    watermark = watermark_of(alive, Patience(allowance=600))
    assert watermark is not None
    assert watermark.astimezone(dt.UTC) == now
    assert found["behind"].last < found["behind"].arrived


def test_gaps_of_long_ago_are_left_to_the_lake(spark: SparkSession) -> None:
    now, days = moment(NOW), dt.timedelta(days=1)
    rows = [(seq, now - age * days) for seq, age in ((2, 3), (4, 2), (5, 1), (9, 0))]
    blocks = spark.createDataFrame([("e", seq, at, "", "", at, 0, 0, 0, False) for seq, at in rows], BLOCKS.schema)
    (every,), (late,) = heard(blocks).collect(), heard(blocks, now - 2 * days).collect()
    assert [gap.blocks for gap in every.gaps] == [1, 1, 3]
    assert [gap.blocks for gap in late.gaps] == [1, 3]
    assert (every.first, every.last) == (late.first, late.last)
    assert (every.lost_blocks, late.lost_blocks) == (5, 4)


def test_an_emitter_with_very_many_gaps_has_the_first_of_them_and_all_in_sum(spark: SparkSession) -> None:
    at = moment(NOW)
    rows = [("e", 2 * place, at, "", "", at, place, 0, 0, False) for place in range(1, 1_001)]
    (row,) = heard(spark.createDataFrame(rows, BLOCKS.schema)).collect()
    assert (row.lost_blocks, row.lost_events) == (1_000, 1_000)
    assert len(row.gaps) == 100
