import datetime as dt
import json
import time

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bus.domain.identity import id_floor
from bus.domain.tracing.events import BLOCK_EVENTS
from pipeline.schemas import BLOCKS, EVENTS, SIDE
from pipeline.transforms.blocks import Allowance, blocks_of, events_of, ledger_of, malformed_of, misdated, parsed
from pipeline.transforms.rolling import rolled_up
from tests.harness.trace_lines import block, settled

NOW = 1_763_700_000_000
HOUR = 3_600_000
ALLOWED = Allowance(late=600, future=600)
NO_TIMES = (NOW * 1000, NOW * 10**6, 2**63 - 1)
NO_NUMBERS = (-1, 2**40 + 1, 2**63 - 1)
NO_IDS = (
    *("-1", "-2345678-1234-7000-8000-000000000000", "z" * 14 + "7" + "z" * 21, "7" * 36),
    *(id_floor(NOW) + end for end in ("\n", "\u2028", "0")),
)


def lines(spark: SparkSession, *values: str, arrived: int = NOW) -> DataFrame:
    at = dt.datetime.fromtimestamp(arrived / 1000, dt.UTC)
    return parsed(spark.createDataFrame([(value, at) for value in values], "value string, arrived timestamp"))


def test_events_of_a_block_are_rows_with_defaults(spark):
    bare = {"stage": "accepted", "at": NOW, "id": settled(NOW)["id"], "destination": "orders"}
    (row,) = events_of(lines(spark, block([bare], emitter="e", seq=7)), ALLOWED).collect()
    assert (row.emitter, row.seq, row.position, row.verdict) == ("e", 7, 0, "good")
    assert (row.subscription, row.attempt, row.latency_us, row.expected) == ("", 0, -1, [])
    assert row.at.timestamp() * 1000 == NOW


def test_a_messages_minute_is_that_of_its_id(spark):
    event = settled(NOW + HOUR // 2, id=settled(NOW)["id"])
    (row,) = events_of(lines(spark, block([event]), arrived=NOW + HOUR // 2), ALLOWED).collect()
    assert row.sent_minute.timestamp() * 1000 == (NOW - 5) // 60_000 * 60_000
    assert row.minute.timestamp() * 1000 == (NOW + HOUR // 2) // 60_000 * 60_000


def test_an_event_is_late_or_future_by_the_arrival_of_its_line_alone(spark):
    times = {"good": NOW - 599_000, "late": NOW - 601_000, "future": NOW + 601_000}
    read = events_of(lines(spark, block([settled(at) for at in times.values()])), ALLOWED)
    assert [row.verdict for row in read.orderBy("position").collect()] == list(times)
    side = misdated(read).orderBy("position").collect()
    assert [(row.verdict, row.position) for row in side] == [("late", 1), ("future", 2)]


def test_what_cannot_be_read_is_kept_as_it_came(spark):
    good = settled(NOW)
    broken = [{**good, "stage": "dreamt"}, {**good, "at": "noon"}, {**good, "id": "7"}, {**good, "destination": ""}]
    read = lines(spark, "rubbish\n", "[]", "{}", block([good, *broken]), block([], seq=0))
    rows = malformed_of(read).collect()
    assert {row.raw for row in rows if row.position == -1} == {"rubbish\n", "[]", "{}", block([], seq=0)}
    whys = {row.position: row.why for row in rows if row.position >= 0}
    assert whys == {
        1: "its stage is none that is known",
        2: "it has no time",
        3: "its id is not a UUID of version 7",
        4: "it has no destination",
    }
    assert '"at":"noon"' in next(row.raw for row in rows if row.position == 2)
    assert events_of(read, ALLOWED).count() == 1


def test_a_line_that_is_no_text_is_kept_as_text_that_every_tool_reads(spark):
    odd = block([{**settled(NOW), "stage": "?"}]).encode().replace(b"?", b"\xff")
    found = spark.createDataFrame([(each, NOW) for each in (b"a\xffb", odd)], "value binary, arrived long")
    text = found.select(F.col("value").cast("string"), F.timestamp_millis("arrived").alias("arrived"))
    rows = malformed_of(parsed(text)).withColumn("readable", F.is_valid_utf8("raw")).orderBy("position").collect()
    assert [(row.position, row.readable) for row in rows] == [(-1, True), (0, True)]
    assert rows[0].raw == "a\ufffdb"
    assert json.loads(rows[1].raw)["stage"] == "\ufffd"


def test_a_time_of_no_calendar_is_put_aside(spark):
    far = {**settled(NOW), "id": "ffffffff-ffff-7000-8000-000000000000"}
    odd = [{**settled(NOW), "at": at} for at in NO_TIMES]
    read = lines(spark, block([settled(NOW), far, *odd]), *[block([], at=at) for at in NO_TIMES])
    assert [row.position for row in events_of(read, ALLOWED).collect()] == [0]
    assert sorted((row.position, row.why) for row in malformed_of(read).collect()) == [
        *[(-1, "not a block of trace events")] * len(NO_TIMES),
        (1, "its id is of a time in no calendar"),
        *[(position, "its time is in no calendar") for position in range(2, 2 + len(NO_TIMES))],
    ]
    assert blocks_of(read).count() == 1


def test_a_row_of_the_ledger_that_cannot_be_read_is_put_aside(spark):
    good = {"stage": "sent", "destination": "orders", "subscription": "", "minute": 0, "count": 1, "xor": 1, "sum": 1}
    broken = [
        {**good, "minute": NOW * 1000},
        {**good, "minute": -1},
        {**good, "stage": None},
        {**good, "count": None},
        {**good, "latency": {"x": 1}},
        {**good, "latency": {"07": 1, "7": 1}},
        {**good, "latency": {"7\n": 1, "7": 1}},
        {**good, "latency": {"99999999999": 1}},
    ]
    whole = {**good, "latency": {"-3": 1, "0": 2, "812": 3}}
    read = lines(spark, block([settled(NOW)], ledger=[good, *broken, whole]))
    assert [row.latency for row in ledger_of(read).orderBy("position").collect()] == [{}, {-3: 1, 0: 2, 812: 3}]
    rows = malformed_of(read).orderBy("position").collect()
    assert [row.position for row in rows] == list(range(1, 1 + len(broken)))
    assert {row.why for row in rows} == {"a row of the ledger that cannot be read"}
    assert '"latency":{"x":1}' in rows[4].raw


def test_what_is_no_id_is_put_aside(spark):
    odd = [{**settled(NOW), "id": id_} for id_ in NO_IDS]
    read = lines(spark, block([*odd, settled(NOW)]))
    assert [row.position for row in events_of(read, ALLOWED).collect()] == [len(odd)]
    rows = malformed_of(read).collect()
    assert [(row.position, row.why) for row in rows] == [
        (position, "its id is not a UUID of version 7") for position in range(len(odd))
    ]


def test_numbers_that_do_not_add_up_are_put_aside(spark):
    row = {"stage": "sent", "destination": "orders", "subscription": "", "minute": 0, "count": 1, "xor": 1, "sum": 1}
    odd = [each for many in NO_NUMBERS for each in ({**row, "count": many}, {**row, "latency": {"3": many}})]
    events = [{**settled(NOW), "bytes": many} for many in NO_NUMBERS]
    wrong = [each for many in NO_NUMBERS for each in (block([], lost=many), block([], seq=many))]
    read = lines(spark, block([settled(NOW), *events], ledger=odd), *wrong)
    assert rolled_up(events_of(read, ALLOWED)).agg({"bytes": "sum"}).count() == 1
    assert sorted((row.why, row.position) for row in malformed_of(read).collect()) == [
        *[("a row of the ledger that cannot be read", position) for position in range(len(odd))],
        *[("its length is none that a body has", 1 + position) for position in range(len(events))],
        *[("not a block of trace events", -1)] * len(wrong),
    ]
    assert (events_of(read, ALLOWED).count(), ledger_of(read).count(), blocks_of(read).count()) == (1, 0, 1)


@pytest.mark.proof
def test_a_broken_event_does_not_make_its_block_dear(spark):
    def seconds(event: dict[str, object]) -> float:
        many = [settled(NOW) for _ in range(BLOCK_EVENTS - 1)]
        read = lines(spark, *[block([*many, event], seq=seq) for seq in range(1, 9)]).cache()
        read.count()
        rounds = []
        for _ in range(4):
            began = time.perf_counter()
            malformed_of(read).write.format("noop").mode("overwrite").save()
            rounds.append(time.perf_counter() - began)
        read.unpersist()
        return min(rounds)

    assert seconds({"stage": "dreamt"}) < 4 * seconds(settled(NOW))


def test_a_block_without_a_list_is_put_aside_whole(spark):
    whole = json.loads(block([settled(NOW)]))
    odd = [
        json.dumps({**whole, part: rubbish}) for part in ("events", "ledger") for rubbish in ("x", 5, None, {"a": 1})
    ]
    read = lines(spark, *odd)
    assert sorted(row.raw for row in malformed_of(read).collect()) == sorted(odd)
    assert blocks_of(read).count() == 0


def test_what_is_no_event_hides_none_beside_it(spark):
    """Spark reads no list of which an item is no object, so that such a line is put aside whole."""
    unreadable, readable = (5, "x", [], [5]), (None, {})
    blocks = [block([rubbish, settled(NOW)], seq=seq) for seq, rubbish in enumerate((*unreadable, *readable), 1)]
    read = lines(spark, *blocks)
    aside = [row.position for row in malformed_of(read).orderBy("position").collect()]
    assert aside == [-1] * len(unreadable) + [0] * len(readable)
    assert sorted(row.seq for row in events_of(read, ALLOWED).collect()) == [5, 6]


def test_every_event_is_either_read_or_put_aside(spark):
    events = [settled(NOW), {"stage": "settled"}, settled(NOW - HOUR), {"at": []}, settled(NOW + HOUR)]
    read = lines(spark, block(events))
    good = events_of(read, ALLOWED).where("verdict = 'good'").count()
    assert good + malformed_of(read).unionByName(misdated(events_of(read, ALLOWED))).count() == len(events)


def test_fields_that_are_not_known_yet_do_no_harm(spark):
    line = block([settled(NOW, colour="blue")], v=2, weather={"sun": True})
    assert events_of(lines(spark, line), ALLOWED).count() == 1


def test_a_block_says_what_its_emitter_lost(spark):
    (row,) = blocks_of(lines(spark, block([settled(NOW)], seq=3, at=NOW, lost=12, node="host-1"))).collect()
    assert (row.seq, row.lost, row.node, row.events, row.ledger) == (3, 12, "host-1", 1, 0)


def test_transforms_give_the_schemas_of_their_tables(spark):
    read = lines(spark, block([settled(NOW)]))
    for rows, table in ((events_of(read, ALLOWED), EVENTS), (blocks_of(read), BLOCKS), (malformed_of(read), SIDE)):
        kinds = {field.name: field.dataType for field in rows.schema.fields}
        assert {field.name: kinds[field.name] for field in table.schema.fields} == {
            field.name: field.dataType for field in table.schema.fields
        }
