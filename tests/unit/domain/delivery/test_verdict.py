"""The verdict on a subscriber's response."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.delivery.delivery import Delivery, Origin, Status, compensation_of, decode_outcome, encode_outcome
from bus.domain.delivery.retry import RetryPolicy, Schedule, check_dead_on
from bus.domain.delivery.verdict import Answer, judge, without_post
from bus.domain.message import decode_message
from bus.domain.subscription import Subscription
from bus.domain.tracing.signature import signature_of
from bus.testing.writes import NOON, attempt, message

SUBSCRIPTION = Subscription(
    destination="orders", name="billing", url="http://a.example/", retry=RetryPolicy(Schedule((1000,)), 60_000, 3)
)
SENT = message(7)


def verdict(answer: Answer, *, n: int = 1, tries: int = 0, since: int = NOON, generation: int = 0):
    delivery = Delivery(SENT, "billing", generation=generation, attempts=n - 1, tries=tries, since=since)
    return judge(delivery, SUBSCRIPTION, attempt("a", n, NOON), answer, now=NOON + 10, noise=0.5)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_any_2xx_is_success(status: int) -> None:
    outcome = verdict(Answer(status, "", None), n=4, tries=2, generation=3)
    assert (outcome.status, outcome.generation, outcome.attempts, outcome.at) == (Status.DELIVERED, 3, 4, NOON + 10)
    assert (outcome.reason, outcome.due_at, outcome.message) == ("", 0, b"")
    assert outcome.attempt is not None
    assert compensation_of(outcome) is None


@pytest.mark.parametrize("status", [100, 199, 300, 301, 302, 304, 307, 308, 400, 401, 404, 410, 429, 500, 503, 599])
def test_any_other_answer_is_a_failure(status: int) -> None:
    outcome = verdict(Answer(status, "", None))
    assert (outcome.status, outcome.reason, outcome.due_at) == (Status.RETRYING, f"HTTP {status}", NOON + 1010)


def test_no_answer_is_a_failure_with_its_reason() -> None:
    assert verdict(Answer(None, "connection refused", None)).reason == "connection refused"


def test_a_failure_carries_the_whole_message_on() -> None:
    outcome = verdict(Answer(500, "", None), n=5, tries=1, since=NOON - 20, generation=2)
    row = compensation_of(outcome)
    assert row is not None
    assert decode_message(row.message) == SENT
    assert (row.generation, row.attempts, row.tries, row.since, row.due_at) == (2, 5, 2, NOON - 20, NOON + 1010)
    assert (row.by, row.message_id, row.destination, row.subscription) == (Origin.RETRY, SENT.id, "orders", "billing")


def test_a_delivery_without_a_beginning_begins_with_its_first_failure() -> None:
    assert verdict(Answer(500, "", None), since=0).since == NOON + 10


@pytest.mark.parametrize(("tries", "since"), [(2, NOON), (0, NOON - 60_000)])
def test_exhausted_retries_are_dead_and_say_after_how_many(tries: int, since: int) -> None:
    outcome = verdict(Answer(500, "", None), tries=tries, since=since)
    assert (outcome.status, outcome.due_at, outcome.message) == (Status.DEAD, 0, b"")
    assert outcome.reason == f"HTTP 500; retries exhausted after {tries + 1}"
    assert compensation_of(outcome) is None


def test_retry_after_is_honoured() -> None:
    assert verdict(Answer(503, "", 5000)).due_at == NOON + 5010
    assert verdict(Answer(503, "", 10)).due_at == NOON + 1010


def test_a_delivery_may_be_decided_without_a_post() -> None:
    delivery = Delivery(SENT, "billing", generation=1, attempts=3)
    outcome = without_post(delivery, SUBSCRIPTION, Status.SKIPPED, "filter", NOON)
    assert (outcome.status, outcome.reason, outcome.attempt, outcome.attempts) == (Status.SKIPPED, "filter", None, 3)
    assert (outcome.generation, outcome.url, compensation_of(outcome)) == (1, SUBSCRIPTION.url, None)


def test_an_outcome_rests_in_the_spool_as_it_was() -> None:
    for outcome in (verdict(Answer(500, "é", 1)), verdict(Answer(200, "", None))):
        assert decode_outcome(encode_outcome(outcome)) == outcome


def test_a_resend_is_due_work_of_its_own_origin() -> None:
    delivery = Delivery(SENT, "billing")
    row = compensation_of(without_post(delivery, SUBSCRIPTION, Status.RESEND, "a person", NOON))
    assert row is not None
    assert row.by is Origin.RESEND


@pytest.mark.parametrize("status", [Status.PENDING, Status.SKIPPED, Status.CANCELED, Status.PARKED])
def test_other_states_leave_no_work(status: Status) -> None:
    assert compensation_of(without_post(Delivery(SENT, "billing"), SUBSCRIPTION, status, "", NOON)) is None


@pytest.mark.parametrize("status", [400, 422])
def test_a_status_that_the_subscription_names_is_dead_at_once_and_says_so(status: int) -> None:
    of = msgspec.structs.replace(SUBSCRIPTION, dead_on=(400, 422))
    delivery = Delivery(SENT, "billing", since=NOON)
    outcome = judge(delivery, of, attempt("a", 1, NOON), Answer(status, "", 5_000), now=NOON + 10, noise=0.5)
    assert (outcome.status, outcome.due_at, outcome.message) == (Status.DEAD, 0, b"")
    assert outcome.reason == f"HTTP {status}; not tried again, as the subscription says"
    assert compensation_of(outcome) is None
    assert signature_of(outcome.reason) == signature_of(f"HTTP {status}")
    other = judge(delivery, of, attempt("a", 1, NOON), Answer(404, "", None), now=NOON + 10, noise=0.5)
    assert other.status is Status.RETRYING


def test_what_passes_by_itself_and_410_cannot_be_final() -> None:
    assert check_dead_on([422, 400, 422, 503]) == (400, 422, 503)
    for status in (200, 302, 399, 408, 410, 425, 429, 600):
        with pytest.raises(ValueError, match=f"{status} cannot be final"):
            check_dead_on([status])
    with pytest.raises(ValueError, match="at most 16"):
        check_dead_on(range(430, 447))
