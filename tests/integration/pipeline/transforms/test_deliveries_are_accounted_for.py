import dataclasses
import datetime as dt
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from bus.domain.subscription import PAUSED_BY_410, PAUSED_BY_PERSON
from pipeline.transforms.accounting import concluded, counted, listed
from pipeline.transforms.blocks import Allowance, events_of, ledger_of, parsed
from pipeline.transforms.hearing import Patience, state_at, with_front
from pipeline.transforms.ledgers import compared
from pipeline.transforms.proofs import compared_with
from pipeline.transforms.screening import suspected, suspects
from pipeline.transforms.stored import Store, beside_store, unwitnessed
from tests.harness.accounts import look_into, moment, one_message, witness
from tests.harness.trace_lines import Event, accepted, sent, settled, told

NOW = 1_763_700_000_000
OLD = NOW - 3_600_000
LATER = OLD + 1_800_000
FINAL = NOW - 8 * 24 * 3_600_000
PATIENCE = Patience(allowance=600, horizon=7 * 24 * 3600)
UNTRIED: dict[str, Any] = {"status": "pending", "attempts": []}


class Cases:
    """Cases side by side, each a destination of its own, so that Spark runs once for all."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.store: list[dict[str, Any]] = []
        self.ids: dict[str, list[str]] = {}
        self.retention: dict[str, int] = {}
        self.paused: dict[tuple[str, str], str] = {}
        self.due: list[tuple[str, str]] = []

    def add(
        self,
        name: str,
        *events: Event,
        store: list[dict[str, Any]] | None = None,
        passed: bool = True,
        retention: int = 30,
    ) -> None:
        """Add a case; ``passed`` by a later delivery unless it is not."""
        later = one_message(LATER) if passed else []
        self.events += [{**event, "destination": name} for event in (*events, *later)]
        self.store += [{"destination": name, **row} for row in (*(store or []), *[{"id": e["id"]} for e in later[:1]])]
        self.ids[name] = list(dict.fromkeys(event["id"] for event in events))
        self.retention[name] = retention

    def witness(self, spark: SparkSession) -> Store:
        return witness(spark, self.store, retention=self.retention, paused=self.paused, due=self.due)


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
    store = cases.witness(spark) if with_store else None
    seen = unwitnessed(buckets) if store is None else beside_store(buckets, store, moment(FINAL), moment(NOW))
    buckets = with_front(seen, PATIENCE).withColumn("state", state_at(moment(NOW), PATIENCE)).persist()
    screened = suspects(events, store.deliveries if store is not None else None, buckets)
    left = store._replace(deliveries=suspected(store.deliveries, screened)) if store is not None else None
    how = (buckets, moment(NOW), PATIENCE.allowance)
    deliveries = look_into(events, store, *how).persist()
    try:
        whole, found = concluded(buckets, counted(deliveries)), listed(deliveries)
        suspect = look_into(suspected(events, screened), left, *how)
        assertDataFrameEqual(concluded(buckets, counted(suspect)), whole)
        assertDataFrameEqual(listed(suspect), found)
        assert suspect.count() < deliveries.count()
        return Account(cases.ids, deliveries.collect(), found.collect(), whole.collect())
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
        {"id": ids[2], **UNTRIED, "reason": "paused"},
        {"id": ids[3], **UNTRIED},
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
    rows = [{"id": kept}, {"id": unheard, **UNTRIED}]
    cases.add("apart", *heard, accepted(OLD, id=kept), store=rows)
    cases.ids["apart"].append(unheard)
    cases.add("only", store=[{"id": one_message(OLD)[0]["id"], **UNTRIED}])
    lost = one_message(OLD)[:2]
    cases.add("last word", *lost, store=[{"id": lost[0]["id"], "status": "pending"}])
    cases.add("the same id elsewhere", *[{**event, "at": event["at"] + 500} for event in lost])
    _add_paused(cases)
    _add_absent(cases)
    _add_contradictions(cases)
    return account(spark, cases, with_store=True)


def _add_paused(cases: Cases) -> None:
    """Add deliveries that wait by order in buckets that are final, though the transport has passed them long since."""
    for name, why in (("by a person", PAUSED_BY_PERSON), ("by 410", PAUSED_BY_410)):
        waiting = [one_message(FINAL)[:2] for _ in range(2)]
        rows = [{"id": message[0]["id"], **UNTRIED} for message in waiting]
        cases.add(name, *[event for message in waiting for event in message], store=rows)
        cases.paused[name, "shop"] = why
    held, orphaned = accepted(FINAL), one_message(FINAL, status="retrying")
    rows = [{"id": held["id"], **UNTRIED}, {"id": orphaned[0]["id"], "status": "retrying", "owned": False}]
    cases.add("all of it", held, *orphaned, store=rows)
    cases.paused["all of it", ""] = "the destination is paused"


def _add_absent(cases: Cases) -> None:
    """Add messages that the store was asked for and does not have."""
    told = [one_message(OLD)[:2], [accepted(OLD)]]
    told += [one_message(OLD, status=status) for status in ("delivered", "retrying", "dead", "retrying")]
    cases.add("absent", *[event for message in told for event in message], passed=False, store=[])
    cases.due.append((told[-1][0]["id"], "shop"))
    expired = [one_message(FINAL), one_message(FINAL, status="dead")]
    cases.add("expired", *[event for message in expired for event in message], retention=7)


def _add_contradictions(cases: Cases) -> None:
    """Add what events and the store tell in two ways, by (events, store): statuses and generations."""
    planted: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, UNTRIED),
        ({}, {"status": "retrying"}),
        ({}, {"status": "dead"}),
        ({"status": "dead"}, {"status": "retrying", "owned": False}),
        ({"generation": 1}, {"generation": 0, "status": "dead"}),
        ({"code": 202}, UNTRIED),
        ({}, {"status": "resend", "generation": 1}),
        ({"status": "canceled"}, {}),
        ({"status": "dead"}, {"status": "retrying"}),
    ]
    messages = [one_message(OLD, **told) for told, _ in planted]
    messages[5][-1]["at"] = NOW - 1_000  # what the store may not have yet
    rows = [{"id": message[0]["id"], **row} for message, (_, row) in zip(messages, planted, strict=True)]
    cases.add("contradicted", *[event for message in messages for event in message], store=rows)


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
    assert together.found("stored") == ["event_lost", "event_lost", "held", "missing", "missing"]


def test_a_retry_that_nobody_owns_any_more_is_missing(together):
    assert together.found("owners") == ["under_way", "missing", "under_way"]


@pytest.mark.parametrize("case", ["by a person", "by 410"])
def test_what_waits_in_a_paused_subscription_is_never_missing(together, case):
    assert together.found(case) == ["held", "held"]
    row = together.bucket(case)
    assert (row.state, row.verdict, row.missing) == ("final", "unsettled", 0)
    reasons = {row.store_reason for row in together.findings if (row.destination, row.hop) == (case, "deliver")}
    assert reasons == {PAUSED_BY_PERSON if case == "by a person" else PAUSED_BY_410}


def test_a_pause_hides_no_retry_that_nobody_has(together):
    assert together.found("all of it") == ["held", "missing"]


def test_a_message_that_the_store_was_asked_for_and_does_not_have_is_not_waiting(together):
    assert together.found("absent") == ["missing", "held", "store_behind", "missing", "store_behind", "under_way"]


def test_what_is_past_its_retention_is_not_asked_of_the_store(together):
    assert together.found("expired") == ["settled", "dead"]


def test_witnesses_that_contradict_each_other_are_told_so(together):
    assert together.found("contradicted") == [*["store_behind"] * 5, "under_way", "under_way", "settled", "under_way"]
    assert together.bucket("contradicted").verdict == "contradicted"


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
    assert row.last_at.replace(tzinfo=dt.UTC) == moment(OLD + 10)
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
