"""Contents and new ids come out in Spark as they do in the bus."""

import datetime as dt
import hashlib
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from bus.domain.delivery.delivery import Outcome, Resend, Status
from bus.domain.identity import id_time, new_id
from bus.domain.message import Message
from bus.domain.tracing.contents import Tally
from bus.domain.tracing.trace import Trace, merge_message, merge_outcome, start_trace
from bus.testing.writes import NOON, message, outcome
from pipeline.schemas import MESSAGES, REPLAYS
from pipeline.transforms.contents import counted, left_behind
from pipeline.transforms.freezing import frozen


def traces() -> list[tuple[Trace, bytes]]:
    made = []
    for number in range(4):
        sent = message(number, body=bytes(number))
        resend = Resend(1, "job", "ann", "", NOON)
        writes: list[Message | Outcome] = [
            outcome(sent, "billing", Status.RETRYING, 1),
            outcome(sent, "billing", Status.RESEND, 1, generation=1, attempt=None, resend=resend, due_at=NOON),
            *([outcome(sent, "billing", Status.DELIVERED, 2, generation=1)] if number else []),
            outcome(sent, "mail", Status.DEAD, 3),
        ]
        trace = start_trace(sent.id, sent.destination, sent.retention_days)
        merge_message(trace, sent)
        for write in writes:
            merge_outcome(trace, write)
        made.append((trace, sent.body))
    return made


def rows(spark: SparkSession, found: list[tuple[Trace, bytes]]) -> DataFrame:
    def time(milliseconds: int) -> dt.datetime | None:
        return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC) if milliseconds else None

    def row(trace: Trace, body: bytes) -> dict[str, Any]:
        deliveries = [
            {
                "subscription": name,
                "status": each.status.value,
                "generation": each.generation,
                "attempts_made": each.attempts_made,
                "at": time(each.at),
                "attempts": [{"id": attempt} for attempt in each.attempts],
                "resends": [{"generation": resend.generation} for resend in each.resends],
            }
            for name, each in sorted(trace.deliveries.items())
        ]
        return {"id": trace.id, "arrived": True, "body": body, "deliveries": deliveries}

    return spark.createDataFrame([row(trace, body) for trace, body in found], MESSAGES.schema)


def test_contents_are_those_that_the_bus_counts(spark: SparkSession) -> None:
    found = traces()
    tally = Tally()
    for trace, body in reversed(found):
        tally.add(trace, body)
    expected = tally.contents
    halves = (int(expected.checksum[:15], 16), int(expected.checksum[15:], 16))
    wanted = [(expected.messages, expected.deliveries, *halves, 1, 0)]
    names = "messages long, deliveries long, half_0 long, half_1 long, unfinished long, unreadable long"
    assertDataFrameEqual(counted(rows(spark, found)), spark.createDataFrame(wanted, names))
    assert (expected.messages, expected.deliveries, tally.is_finished) == (4, 8, False)


def test_nothing_has_contents_too(spark: SparkSession) -> None:
    (row,) = counted(spark.createDataFrame([], MESSAGES.schema)).collect()
    assert tuple(row) == (0, 0, 0, 0, 0, 0)


def arrivals(spark: SparkSession, *found: tuple[str, int | None]) -> DataFrame:
    times = [(name, second and dt.datetime.fromtimestamp(second, dt.UTC)) for name, second in found]
    return spark.createDataFrame(times, "id string, received_at timestamp")


def test_what_came_again_or_is_not_there_is_left_behind(spark: SparkSession) -> None:
    earlier = arrivals(spark, ("same", 10), ("again", 10), ("gone", 10), ("lost its time", 10), ("had none", None))
    rows = arrivals(spark, ("same", 10), ("again", 11), ("lost its time", None), ("had none", 10), ("new", 10))
    assert {row.id for row in left_behind(earlier, rows).collect()} == {"again", "gone", "lost its time"}


def test_a_replay_makes_the_same_ids_again_each_message_once(spark: SparkSession) -> None:
    messages = rows(spark, traces())
    found = {row.id: row.new_id for row in frozen(messages.unionByName(messages), "again", NOON + 7).collect()}
    assert found == {
        trace.id: new_id(NOON + 7, hashlib.sha256(f"again/{trace.id}".encode()).digest()[:10]) for trace, _ in traces()
    }
    assert {id_time(made) for made in found.values()} == {NOON + 7}
    assert frozen(messages, "again", NOON).columns == REPLAYS.schema.names
