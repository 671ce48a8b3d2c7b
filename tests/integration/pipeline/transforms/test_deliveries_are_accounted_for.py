import dataclasses
import datetime as dt
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline.transforms.accounting import accounted, concluded, counted, listed
from pipeline.transforms.blocks import Allowance, events_of, ledger_of, parsed
from pipeline.transforms.hearing import Patience, state_at, with_front
from pipeline.transforms.ledgers import compared
from pipeline.transforms.proofs import compared_with, with_unheard
from pipeline.transforms.witnesses import said_by_events, said_by_store, with_last_word, with_owners
from tests.harness.accounts import moment, one_message, stored
from tests.harness.trace_lines import Event, accepted, sent, settled, told

NOW = 1_763_700_000_000
OLD = NOW - 3_600_000
LATER = OLD + 1_800_000
PATIENCE = Patience(allowance=600, horizon=7 * 24 * 3600)


class Cases:
    """Cases side by side, each a destination of its own, so that Spark runs once for all."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.store: list[dict[str, Any]] = []
        self.ids: dict[str, list[str]] = {}

    def add(self, name: str, *events: Event, store: list[dict[str, Any]] | None = None, passed: bool = True) -> None:
        """Add a case; ``passed`` by a later delivery unless it is not."""
        later = one_message(LATER) if passed else []
        self.events += [{**event, "destination": name} for event in (*events, *later)]
        self.store += [{"destination": name, **row} for row in store or []]
        self.ids[name] = list(dict.fromkeys(event["id"] for event in events))


@dataclasses.dataclass
class Account:
    """What Spark made of cases."""

    ids: dict[str, list[str]]
    deliveries: list[Row]
    findings: list[Row]
    buckets: list[Row]

    def found(self, case: str) -> list[str]:
        """Return the findings of a case's deliveries, in the order of its messages."""
        by_id = {row.id: row.finding for row in self.deliveries if (row.destination, row.hop) == (case, "deliver")}
        return [by_id[each] for each in self.ids[case]]

    def bucket(self, case: str, hop: str = "deliver") -> Row:
        (row,) = [
            row
            for row in self.buckets
            if (row.destination, row.hop) == (case, hop) and row.minute.replace(tzinfo=dt.UTC) < moment(LATER)
        ]
        return row

    def finding(self, case: str, hop: str = "deliver") -> Row:
        (row,) = [
            row
            for row in self.findings
            if (row.destination, row.hop) == (case, hop) and row.minute.replace(tzinfo=dt.UTC) < moment(LATER)
        ]
        return row


def account(spark: SparkSession, cases: Cases, *, with_store: bool) -> Account:
    lines = spark.createDataFrame([(told(cases.events), moment(NOW))], "value string, arrived timestamp")
    read = parsed(lines)
    events = events_of(read, Allowance()).persist()
    buckets = compared(ledger_of(read))
    store = stored(spark, cases.store)
    if with_store:
        buckets = with_unheard(buckets, store.where("status in ('pending', 'retrying', 'resend')"))
    buckets = with_front(buckets, PATIENCE).withColumn("state", state_at(moment(NOW), PATIENCE)).persist()
    words = said_by_events(events, buckets)
    if with_store:
        words = words.unionByName(said_by_store(store, buckets))
    single = accounted(words, buckets, moment(NOW), PATIENCE.allowance, with_store=with_store)
    deliveries = with_last_word(single, events).persist()
    try:
        whole = concluded(buckets, counted(deliveries)).collect()
        return Account(cases.ids, deliveries.collect(), listed(deliveries).collect(), whole)
    finally:
        for frame in (events, buckets, deliveries):
            frame.unpersist()


@pytest.fixture(scope="module")
def alone(spark: SparkSession) -> Account:
    """Events without a store."""
    cases = Cases()
    many = [one_message(OLD + place) for place in range(50)]
    cases.add("many", *[event for message in many for event in message if message is not many[17]], *many[17][:2])
    ends = [{"status": "skipped", "attempt": 0}, {"status": "retrying"}, {"status": "dead"}, {"status": "parked"}]
    cases.add("ends", *[event for end in ends for event in one_message(OLD, **end)])
    cases.add("expired", *one_message(NOW - 8 * 24 * 3_600_000, status="retrying", code=503))
    dead = one_message(OLD, status="dead")
    cases.add("resent", *dead, settled(OLD + 90, id=dead[0]["id"], generation=1))
    trying = settled(OLD + 90, id=dead[0]["id"], generation=1, status="retrying")
    cases.add("resent, retrying", *dead, trying)
    twice, again = one_message(OLD), one_message(OLD)
    cases.add("twice", *twice, {**twice[-1], "attempt_id": "b"}, *again, {**again[-1], "generation": 1})
    cases.add("mixed", *one_message(OLD)[:2], *twice, {**twice[-1], "attempt_id": "b"})
    cases.add("refused", sent(OLD), *one_message(OLD), sent(NOW - 8 * 24 * 3_600_000))
    cases.add("backlog", *one_message(OLD), *one_message(OLD)[:2], passed=False)
    return account(spark, cases, with_store=False)


@pytest.fixture(scope="module")
def together(spark: SparkSession) -> Account:
    """Events and a store."""
    cases = Cases()
    ids = [one_message(OLD)[0]["id"] for _ in range(5)]
    has = [
        {"id": ids[0]},
        {"id": ids[1], "status": "dead"},
        {"id": ids[2], "status": "pending", "reason": "paused"},
        {"id": ids[3], "status": "pending", "owned": False},
    ]
    cases.add("stored", *[accepted(OLD, id=each) for each in ids], store=has)
    owned, orphaned, fresh = retries = [one_message(OLD, status="retrying") for _ in range(3)]
    rows = [
        {"id": owned[0]["id"], "status": "retrying"},
        {"id": orphaned[0]["id"], "status": "retrying", "owned": False},
        {"id": fresh[0]["id"], "status": "retrying", "owned": False, "at": moment(NOW - 1_000)},
    ]
    cases.add("owners", *[event for message in retries for event in message], store=rows)
    heard, kept, unheard = one_message(OLD), one_message(OLD)[0]["id"], one_message(OLD)[0]["id"]
    rows = [{"id": kept}, {"id": unheard, "status": "pending", "owned": False}]
    cases.add("apart", *heard, accepted(OLD, id=kept), store=rows)
    cases.ids["apart"].append(unheard)
    cases.add("only", store=[{"id": one_message(OLD)[0]["id"], "status": "pending", "owned": False}])
    lost = one_message(OLD)[:2]
    cases.add("last word", *lost, store=[{"id": lost[0]["id"], "status": "pending", "owned": False}])
    return account(spark, cases, with_store=True)


def test_what_no_end_was_told_of_is_missing_and_nothing_else(alone):
    found = alone.found("many")
    assert (found.count("missing"), found[-1], found.count("settled")) == (1, "missing", 49)


def test_each_end_that_events_tell_has_its_finding(alone):
    assert alone.found("ends") == ["settled", "under_way", "dead", "parked"]


def test_what_is_still_retried_when_the_longest_policy_is_over_is_missing(alone):
    assert (alone.found("expired"), alone.bucket("expired").state) == (["missing"], "final")


def test_a_dead_delivery_that_was_resent_is_what_it_became(alone):
    assert (alone.found("resent"), alone.found("resent, retrying")) == (["settled"], ["under_way"])


def test_duplicates_and_resends_are_told_apart(alone):
    row = alone.bucket("twice")
    assert (row.compared, row.verdict, row.duplicates, row.resent) == ("over", "explained", 1, 1)


def test_a_loss_and_a_duplicate_in_one_bucket_do_not_hide_each_other(alone):
    row = alone.bucket("mixed")
    assert (row.compared, row.verdict, row.missing, row.duplicates) == ("mixed", "missing", 1, 1)


def test_what_waits_in_a_backlog_is_not_missing(alone):
    assert alone.found("backlog") == ["settled", "held"]


def test_a_message_that_no_receiver_accepted_waits_with_its_producer_until_its_bucket_is_final(alone):
    rows = {row.id: row for row in alone.findings if (row.destination, row.hop) == ("refused", "accept")}
    young, _, old = alone.ids["refused"]
    assert (rows[young].finding, rows[old].finding, len(rows)) == ("held", "missing", 2)
    assert (rows[young].subscription, rows[young].last_stage) == ("", "sent")
    assert rows[young].last_at.replace(tzinfo=dt.UTC) == moment(OLD)


def test_the_store_speaks_for_what_events_do_not_tell(together):
    assert together.found("stored") == ["event_lost", "dead", "held", "missing", "missing"]


def test_a_retry_that_nobody_owns_any_more_is_missing(together):
    assert together.found("owners") == ["under_way", "missing", "under_way"]


def test_what_only_one_witness_saw_is_counted_apart(together):
    row = together.bucket("apart")
    assert (row.verdict, row.missing, row.event_lost, row.store_behind, row.unannounced) == ("missing", 1, 1, 1, 1)
    assert together.found("apart") == ["store_behind", "event_lost", "missing"]


def test_a_bucket_that_only_the_store_knows_is_looked_into(together):
    row = together.bucket("only")
    assert (row.compared, row.missing, row.verdict) == ("unheard", 1, "missing")


def test_a_missing_delivery_has_the_last_that_was_told_of_it(together):
    row = together.finding("last word")
    assert (row.last_stage, row.last_transport, row.store_status) == ("published", "direct", "pending")
    assert (row.attempt_id, row.attempt_code) == ("a", 200)


def test_owners_are_those_of_the_delivery_and_of_its_message(spark):
    ids = [one_message(OLD)[0]["id"] for _ in range(3)]
    deliveries = stored(spark, [{"id": each} for each in ids]).drop("owned")
    due = spark.createDataFrame([(ids[0], "shop"), (ids[1], ""), (ids[2], "mail")], "id string, subscription string")
    wanted = spark.createDataFrame(list(zip(ids, [True, True, False], strict=True)), "id string, owned boolean")
    assertDataFrameEqual(with_owners(deliveries, due).select("id", "owned"), wanted)
    assert {row.owned for row in with_owners(deliveries, None).collect()} == {True}


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
