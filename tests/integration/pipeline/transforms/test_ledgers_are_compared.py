import datetime as dt
import random

import pytest

from bus.domain.identity import new_id
from pipeline.schemas import LEDGER
from pipeline.transforms.blocks import ledger_of, parsed
from pipeline.transforms.ledgers import KEY, compared
from tests.harness.accounts import delivered_messages, ends_of, moment, one_message, without
from tests.harness.trace_lines import ledger, sent, settled, told

NOW = 1_763_700_000_000


def bucket(stage: str, *ids: str, **fields) -> tuple:
    """Return one row of the ledger over ids, as the pipeline keeps it."""
    events = [settled(NOW, id=each, **fields) for each in ids]
    (row,) = ledger(events)
    return (
        "e",
        1,
        0,
        moment(NOW),
        stage,
        "orders",
        "shop",
        moment(row["minute"]),
        len(ids),
        row["xor"],
        row["sum"],
        {},
    )


def comparisons(spark, cases: dict[str, list[tuple]]) -> dict[str, str]:
    """Return what is found of cases side by side, each a subscription of its own, so that Spark runs once for all."""
    named = [(*row[:6], case, *row[7:]) for case, rows in cases.items() for row in rows]
    found = compared(spark.createDataFrame(named, LEDGER.schema)).where("hop = 'deliver'").collect()
    return {row.subscription: row.compared for row in found}


@pytest.fixture(scope="module")
def ids() -> list[str]:
    return [new_id(NOW - 5) for _ in range(6)]


def test_every_kind_of_difference_is_told(spark, ids):
    planted = {
        "equal": [bucket("delivered", *ids[:3]), bucket("skipped", ids[3]), bucket("canceled", *ids[4:])],
        "ended": [bucket("delivered", *ids[:4]), bucket("dead", ids[4]), bucket("parked", ids[5])],
        "short": [bucket("delivered", *ids[:5])],
        "over": [bucket("delivered", *ids, ids[0])],
        "mixed": [bucket("delivered", *ids[:5], ids[0])],
    }
    found = comparisons(spark, {kind: [bucket("expected", *ids), *rows] for kind, rows in planted.items()})
    assert found == {kind: kind for kind in planted}


def test_two_losses_and_two_duplicates_whose_xor_is_nothing_are_told_by_the_sum(spark, ids):
    a, b, c, d = ids[:4]
    twice = bucket("delivered", a, a, b, b)
    assert twice[9] == 0
    cases = {"others": [bucket("expected", a, b, c, d), twice], "none": [bucket("expected", c, c, d, d), twice]}
    assert comparisons(spark, cases) == {"others": "mixed", "none": "mixed"}


def test_sums_wrap_as_numbers_of_64_bits_do(spark):
    def row(stage: str, count: int, total: int) -> tuple:
        return ("e", 1, 0, moment(NOW), stage, "orders", "shop", moment(NOW), count, 0, total, {})

    cases, wanted = {}, {}
    for edge in (2**63 - 1, -(2**63), -1):
        total = (edge * 5 + 2**63) % 2**64 - 2**63
        for name, off in (("equal", 0), ("mixed", 1)):
            cases[f"{edge} {name}"] = [*[row("expected", 1, edge)] * 5, row("delivered", 5, total ^ off)]
            wanted[f"{edge} {name}"] = name
    assert comparisons(spark, cases) == wanted


def test_rows_of_an_emitters_lines_add_up_however_they_were_cut(spark):
    events = delivered_messages(NOW - 300_000, 400, 500, "shop", "mail")
    random.Random(1).shuffle(events)
    lines = [told(events[start : start + 97], seq=seq) for seq, start in enumerate(range(0, len(events), 97), start=1)]
    read = parsed(spark.createDataFrame([(line, moment(NOW)) for line in lines], "value string, arrived timestamp"))
    found = compared(ledger_of(read)).collect()
    assert {row.compared for row in found} == {"equal"}
    assert sum(row.expected for row in found if row.hop == "deliver") == 800
    assert sum(row.expected for row in found if row.hop == "publish") == 400
    assert {row.hop for row in found} == {"publish", "deliver"}


def test_each_hop_is_compared_for_itself(spark):
    start = NOW // 60_000 * 60_000
    whole = one_message(start)
    lost_on_the_way = [sent(start, id=whole[0]["id"]), sent(start + 1), *whole, *one_message(start + 2)[:1]]
    line = told(lost_on_the_way)
    read = parsed(spark.createDataFrame([(line, moment(NOW))], "value string, arrived timestamp"))
    found = {row.hop: (row.expected, row.settled, row.compared) for row in compared(ledger_of(read)).collect()}
    assert found == {"accept": (2, 2, "mixed"), "publish": (2, 1, "short"), "deliver": (2, 1, "short")}


def test_a_missing_end_changes_only_its_own_bucket(spark):
    events = delivered_messages(NOW - 600_000, 100, 6_000, "shop", "mail")
    gone = ends_of(events)[77]
    read = parsed(
        spark.createDataFrame([(told(without(events, [gone])), moment(NOW))], "value string, arrived timestamp")
    )
    (row,) = compared(ledger_of(read)).where("compared != 'equal'").collect()
    assert (row.hop, row.subscription, row.expected - row.settled) == ("deliver", gone[1], 1)
    assert set(KEY) < set(row.asDict())
    assert row.minute.replace(tzinfo=dt.UTC) <= moment(int(gone[0][:8] + gone[0][9:13], 16))
