import datetime as dt
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline.transforms.accounting import accounted, concluded, counted, listed
from pipeline.transforms.blocks import Allowance, events_of, ledger_of, parsed
from pipeline.transforms.hearing import Patience, state_at
from pipeline.transforms.ledgers import compared
from pipeline.transforms.proofs import compared_with, with_unheard
from pipeline.transforms.witnesses import said_by_events, said_by_store, with_last_word, with_owners
from tests.harness.accounts import moment, one_message, stored
from tests.harness.trace_lines import Event, accepted, sent, settled, told

NOW = 1_763_700_000_000
OLD = NOW - 3_600_000
PATIENCE = Patience(allowance=600, horizon=7 * 24 * 3600)
Findings = dict[str, str]


def lines(spark: SparkSession, events: list[Event]) -> DataFrame:
    return parsed(spark.createDataFrame([(told(events), moment(NOW))], "value string, arrived timestamp"))


def account(
    spark: SparkSession, events: list[Event], store: list[dict[str, Any]] | None = None, *, now: int = NOW
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return buckets, deliveries and events as a run makes them."""
    read = lines(spark, events)
    seen = events_of(read, Allowance())
    buckets = compared(ledger_of(read))
    if store is not None:
        open_ones = stored(spark, store).where("status in ('pending', 'retrying', 'resend')")
        buckets = with_unheard(buckets, open_ones)
    buckets = buckets.withColumn("state", state_at(moment(now), PATIENCE))
    words = said_by_events(seen, buckets)
    if store is not None:
        words = words.unionByName(said_by_store(stored(spark, store), buckets))
    return buckets, accounted(words, buckets, moment(now), PATIENCE.allowance, with_store=store is not None), seen


def findings(spark: SparkSession, events: list[Event], store: list[dict[str, Any]] | None = None, **more) -> Findings:
    """Return the finding of each message's delivery."""
    _, deliveries, _ = account(spark, events, store, **more)
    return {row.id: row.finding for row in deliveries.where("hop = 'deliver'").collect()}


def test_what_no_end_was_told_of_is_missing_and_nothing_else(spark):
    whole = [one_message(OLD + place) for place in range(50)]
    lost = whole[17][0]["id"]
    events = [event for message in whole for event in message if (event["id"], event["stage"]) != (lost, "settled")]
    found = findings(spark, events)
    assert {key for key, finding in found.items() if finding == "missing"} == {lost}
    assert len(found) == 50


def test_each_end_that_events_tell_has_its_finding(spark):
    ends = {
        "settled": {"status": "skipped", "attempt": 0},
        "under_way": {"status": "retrying", "code": 503},
        "dead": {"status": "dead", "code": 500},
        "parked": {"status": "parked", "code": 500},
    }
    told_ends = {name: one_message(OLD, **end) for name, end in ends.items()}
    found = findings(spark, [event for message in told_ends.values() for event in message])
    assert {name: found[message[0]["id"]] for name, message in told_ends.items()} == {name: name for name in ends}


def test_who_is_still_retried_when_the_longest_policy_is_over_is_missing(spark):
    events = one_message(OLD, status="retrying", code=503)
    assert findings(spark, events, now=NOW + 8 * 24 * 3_600_000) == {events[0]["id"]: "missing"}


def test_a_dead_delivery_that_was_resent_is_what_it_became(spark):
    message_id = one_message(OLD)[0]["id"]
    first = settled(OLD + 50, id=message_id, status="dead")
    again = [accepted(OLD, id=message_id), first]
    assert findings(spark, [*again, settled(OLD + 90, id=message_id, generation=1)]) == {message_id: "settled"}
    trying = settled(OLD + 90, id=message_id, generation=1, status="retrying")
    assert findings(spark, [*again, trying]) == {message_id: "under_way"}


def test_the_store_speaks_for_what_events_do_not_tell(spark):
    ids = {name: one_message(OLD)[0]["id"] for name in ("ended", "dead", "paused", "pending", "nowhere")}
    events = [accepted(OLD, id=each) for each in ids.values()]
    has = [
        {"id": ids["ended"]},
        {"id": ids["dead"], "status": "dead"},
        {"id": ids["paused"], "status": "pending", "reason": "paused"},
        {"id": ids["pending"], "status": "pending", "owned": False},
    ]
    found = findings(spark, events, has)
    assert {name: found[each] for name, each in ids.items()} == {
        "ended": "event_lost",
        "dead": "dead",
        "paused": "held",
        "pending": "missing",
        "nowhere": "missing",
    }


def test_a_retry_that_nobody_owns_any_more_is_missing(spark):
    owned, orphaned, fresh = ids = [one_message(OLD)[0]["id"] for _ in range(3)]
    events = [settled(OLD + 20, id=each, status="retrying") for each in ids]
    at = {owned: OLD, orphaned: OLD, fresh: NOW - 1_000}
    has = [{"id": each, "status": "retrying", "at": moment(at[each]), "owned": each == owned} for each in ids]
    found = findings(spark, [*events, *[accepted(OLD, id=each) for each in ids]], has)
    assert found == {owned: "under_way", orphaned: "missing", fresh: "under_way"}


def test_owners_are_those_of_the_delivery_and_of_its_message(spark):
    ids = [one_message(OLD)[0]["id"] for _ in range(3)]
    deliveries = stored(spark, [{"id": each} for each in ids]).drop("owned")
    due = spark.createDataFrame([(ids[0], "shop"), (ids[1], ""), (ids[2], "mail")], "id string, subscription string")
    wanted = spark.createDataFrame(list(zip(ids, [True, True, False], strict=True)), "id string, owned boolean")
    assertDataFrameEqual(with_owners(deliveries, due).select("id", "owned"), wanted)
    assert {row.owned for row in with_owners(deliveries, None).collect()} == {True}


def test_what_only_one_witness_saw_is_counted_apart(spark):
    heard, kept, unheard = one_message(OLD), one_message(OLD)[0]["id"], one_message(OLD)[0]["id"]
    has = [{"id": kept}, {"id": unheard, "status": "pending", "owned": False}]
    buckets, deliveries, _ = account(spark, [*heard, accepted(OLD, id=kept)], has)
    (row,) = concluded(buckets, counted(deliveries)).where("hop = 'deliver'").collect()
    assert (row.verdict, row.missing, row.event_lost, row.store_behind, row.unannounced) == ("missing", 1, 1, 1, 1)
    found = {each.id: each.finding for each in listed(deliveries).where("hop = 'deliver'").collect()}
    assert found == {heard[0]["id"]: "store_behind", kept: "event_lost", unheard: "missing"}


def test_a_bucket_that_only_the_store_knows_is_looked_into(spark):
    only = one_message(OLD)[0]["id"]
    buckets, deliveries, _ = account(spark, [], [{"id": only, "status": "pending", "owned": False}])
    (row,) = concluded(buckets, counted(deliveries)).collect()
    assert (row.compared, row.missing, row.verdict) == ("unheard", 1, "missing")


def test_duplicates_and_resends_are_told_apart(spark):
    twice, resent = one_message(OLD), one_message(OLD)
    events = [*twice, {**twice[-1], "attempt_id": "b"}, *resent, {**resent[-1], "generation": 1}]
    buckets, deliveries, _ = account(spark, events)
    (row,) = concluded(buckets, counted(deliveries)).where("hop = 'deliver'").collect()
    assert (row.compared, row.verdict, row.duplicates, row.resent) == ("over", "explained", 1, 1)


def test_a_loss_and_a_duplicate_in_one_bucket_do_not_hide_each_other(spark):
    lost, twice = one_message(OLD), one_message(OLD)
    events = [*lost[:2], *twice, {**twice[-1], "attempt_id": "b"}]
    buckets, deliveries, _ = account(spark, events)
    (row,) = concluded(buckets, counted(deliveries)).where("hop = 'deliver'").collect()
    assert (row.compared, row.verdict, row.missing, row.duplicates) == ("mixed", "missing", 1, 1)


def test_a_message_that_no_receiver_accepted_is_missing_from_the_first_hop(spark):
    events = [sent(OLD), *one_message(OLD)]
    _, deliveries, _ = account(spark, events)
    (row,) = listed(deliveries).collect()
    assert (row.hop, row.id, row.subscription, row.finding) == ("accept", events[0]["id"], "", "missing")
    assert (row.last_stage, row.last_at.replace(tzinfo=dt.UTC)) == ("sent", moment(OLD))


def test_a_missing_delivery_has_the_last_that_was_told_of_it(spark):
    whole = one_message(OLD)
    _, deliveries, seen = account(spark, whole[:2], [{"id": whole[0]["id"], "status": "pending", "owned": False}])
    (row,) = listed(with_last_word(deliveries, seen)).where("hop = 'deliver'").collect()
    assert (row.last_stage, row.last_transport, row.store_status) == ("published", "direct", "pending")
    assert (row.attempt_id, row.attempt_code) == ("a", 200)


@pytest.mark.parametrize(("age", "state"), [(60, "open"), (3600, "provisional"), (8 * 24 * 3600, "final")])
def test_a_bucket_is_open_then_provisional_then_final(spark, age, state):
    row = spark.createDataFrame([(moment(NOW - age * 1000),)], "minute timestamp")
    assert row.select(state_at(moment(NOW), PATIENCE)).first()[0] == state


def test_what_was_final_and_changes_is_amended_and_stays_so(spark):
    schema = "hop string, destination string, subscription string, minute timestamp, state string, fingerprint bigint"
    before = {"same": ("final", 1), "changed": ("final", 1), "amended": ("amended", 1), "older": ("open", 1)}
    now = {"same": ("final", 1), "changed": ("final", 2), "amended": ("final", 1), "older": ("final", 1)}

    def rows(states: dict[str, tuple[str, int]]) -> DataFrame:
        given = [("deliver", "orders", name, moment(OLD), *state) for name, state in states.items()]
        return spark.createDataFrame(given, schema)

    found = compared_with(rows(now | {"new": ("open", 5)}), rows(before)).select("subscription", "state", "news")
    wanted = [
        ("same", "final", False),
        ("changed", "amended", True),
        ("amended", "amended", False),
        ("older", "final", True),
        ("new", "open", True),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(wanted, "subscription string, state string, news boolean"))
