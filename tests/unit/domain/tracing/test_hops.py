"""A trace as steps in the order of time, with what is missing told as such."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bus.domain.delivery.delivery import Attempt, Origin, Outcome, Resend, Status
from bus.domain.delivery.reasons import BEHIND
from bus.domain.delivery.receipt import Receipt
from bus.domain.message import Message
from bus.domain.times import format_time
from bus.domain.tracing.hops import Hop, hops_of
from bus.domain.tracing.trace import Trace, attempts_in_order, merge_message, merge_outcome, start_trace
from bus.localized_text import localized
from bus.testing.writes import NOON, attempt, message, outcome


def traced(*writes: Message | Outcome) -> Trace:
    trace = start_trace(message().id, message().destination, 30)
    for write in writes:
        if isinstance(write, Message):
            merge_message(trace, write)
        else:
            merge_outcome(trace, write)
    return trace


def told(trace: Trace) -> list[Hop]:
    return hops_of(trace, {name: attempts_in_order(delivery) for name, delivery in trace.deliveries.items()}, "nsq")


def made(n: int, at: int, **changes: Any) -> Attempt:
    return replace(attempt(f"a{n}", n, NOON + at), **changes)


def test_a_message_from_its_producer_to_its_subscriber() -> None:
    sent = message(expected=("billing",))
    first = made(1, 50, status_code=503, duration=7.0, taken_at=NOON + 20)
    second = made(2, 5_000, by=Origin.RETRY, duration=3.0)
    hops = told(
        traced(
            sent,
            outcome(sent, "billing", Status.RETRYING, 1, attempt=first, at=NOON + 57),
            outcome(sent, "billing", Status.DELIVERED, 2, attempt=second, at=NOON + 5_003),
        )
    )
    assert [(hop.at and hop.at - NOON, hop.place, str(hop.what)) for hop in hops] == [
        (0, "producer", "sent by shop"),
        (2, "receiver", "received, 6 bytes"),
        (20, "nsq", "taken over by a dispatcher"),
        (50, "dispatcher", "attempt 1"),
        (57, "subscriber", "answered HTTP 503"),
        (5_000, "dispatcher", "attempt 2, a retry"),
        (5_003, "subscriber", "answered HTTP 200"),
        (5_003, "dispatcher", "delivered"),
    ]
    assert {(hop.subscription, hop.node) for hop in hops[2:-1]} == {("billing", "node-1")}
    assert not any(hop.is_missing for hop in hops)


def test_what_has_not_arrived_is_told() -> None:
    hops = told(traced(outcome(message(), "billing", Status.DELIVERED, attempt=made(1, 9))))
    assert (hops[0].at, hops[0].place, hops[0].is_missing) == (None, "receiver", True)
    assert [hop.place for hop in hops] == ["receiver", "dispatcher", "subscriber", "dispatcher"]


def test_what_no_dispatcher_told_of_comes_last() -> None:
    sent = message(expected=("billing", "mail"))
    hops = told(traced(sent, outcome(sent, "mail", Status.DELIVERED, attempt=made(1, 9))))
    assert hops[-1] == Hop(None, "nsq", localized("no dispatcher has told of it yet"), "billing", is_missing=True)
    assert [hop for hop in hops if hop.is_missing] == [hops[-1]]


def test_attempts_that_are_not_told_are_gaps() -> None:
    sent = message(expected=("billing",))
    trace = traced(
        sent, *(outcome(sent, "billing", Status.RETRYING, n, attempt=made(n, n * 10), due_at=NOON + 99) for n in (2, 5))
    )
    gaps = [str(hop.what) for hop in told(trace) if hop.is_missing]
    assert gaps == ["attempt 1 is not told here", "attempts 3 to 4 are not told here"]
    gaps = [str(hop.what) for hop in hops_of(trace, {}, "nsq") if hop.is_missing]
    assert gaps == ["attempts 1 to 5 are not told here"]


def test_what_people_did_and_what_comes_next() -> None:
    sent = message(expected=("billing",), edited_from="old", deliver_at=NOON + 40)
    again = Resend(1, "job", "ann", "mended", NOON + 90)
    resent = outcome(
        sent, "billing", Status.RESEND, 1, generation=1, attempt=None, due_at=NOON + 90, at=NOON + 90, resend=again
    )
    hops = told(traced(sent, outcome(sent, "billing", Status.DEAD, 1, attempt=made(1, 60), at=NOON + 63), resent))
    assert [(hop.place, str(hop.what)) for hop in hops] == [
        ("person", "made of old by editing"),
        ("receiver", "received, 6 bytes"),
        ("compensator", "time to deliver it"),
        ("dispatcher", "attempt 1"),
        ("subscriber", "answered HTTP 200"),
        ("person", "resent by ann: mended"),
        ("compensator", "the next attempt is due"),
    ]


def test_what_waits_for_an_earlier_message_of_its_key_is_told() -> None:
    sent = message(expected=("billing",))
    waits = outcome(sent, "billing", Status.PENDING, 0, attempt=None, reason=BEHIND, at=NOON + 20)
    hops = told(traced(sent, waits))
    assert hops[-1] == Hop(NOON + 20, "dispatcher", localized("waits for an earlier message of its key"), "billing")
    assert not any(hop.is_missing for hop in hops)


def test_what_a_person_has_set_aside_is_told_as_theirs() -> None:
    sent = message(expected=("billing",))
    failed = outcome(sent, "billing", Status.DEAD, 1, attempt=made(1, 9), at=NOON + 20)
    aside = outcome(
        sent, "billing", Status.PARKED, 1, generation=1, attempt=None, reason="set aside by ann: no", at=NOON + 30
    )
    last = told(traced(sent, failed, aside))[-1]
    assert (last.place, str(last.what)) == ("person", "parked: set aside by ann: no")
    assert (
        told(traced(sent, outcome(sent, "billing", Status.PARKED, reason="HTTP 503", at=NOON + 99)))[-1].place
        == "dispatcher"
    )


def test_nobody_to_get_it() -> None:
    assert str(told(traced(message(expected=())))[-1].what) == "no subscription takes it"


def test_what_the_bus_says_has_its_template_and_what_others_say_stays() -> None:
    sent = message(expected=("billing",))
    refused = made(1, 50, status_code=None, error="refused {0}")
    reason = "refused {0}; retries exhausted after 1"
    hops = told(traced(sent, outcome(sent, "billing", Status.DEAD, 1, attempt=refused, reason=reason, at=NOON + 60)))
    given = [hop.what for hop in hops[2:]]
    exhausted = localized("{reason}; retries exhausted after {count}", reason="refused {0}", count=1)
    assert given == [
        localized("attempt {n}", n=1),
        "refused {0}",
        localized("{state}: {reason}", state=localized("dead"), reason=exhausted),
    ]
    assert str(given[-1]) == f"dead: {reason}"


def test_who_resent_without_a_word_is_named_once_more_in_the_language_of_the_reader() -> None:
    sent = message(expected=("billing",))
    again = Resend(1, "job", "ann", "resent by ann", NOON + 90)
    resent = outcome(sent, "billing", Status.RESEND, 1, generation=1, attempt=None, at=NOON + 90, resend=again)
    (what,) = [hop.what for hop in told(traced(sent, resent)) if hop.place == "person"]
    assert what == localized("resent by {name}: {reason}", name="ann", reason=localized("resent by {name}", name="ann"))
    assert str(what) == "resent by ann: resent by ann"


def test_what_a_broker_told_stands_with_the_receipt() -> None:
    def taken(receipt: Receipt | None) -> str:
        sent = message(expected=("billing",))
        own = made(1, 50, taken_at=NOON + 20, receipt=receipt)
        (hop,) = [
            hop
            for hop in told(traced(sent, outcome(sent, "billing", Status.DELIVERED, attempt=own)))
            if hop.place == "nsq"
        ]
        return str(hop.what)

    there = format_time(NOON)
    assert taken(None) == "taken over by a dispatcher"
    stock = Receipt("n1:4150", "0c52b9a5c6a0f000", NOON, 1)
    assert (
        taken(stock) == f"taken over by a dispatcher from n1:4150: 0c52b9a5c6a0f000, there since {there}, sent 1 times"
    )
    whole = f"taken over by a dispatcher from n1:4150, partition 3: id 77, trace id {2**64 - 1}, "
    partition = Receipt("n1:4150", "77", NOON, 2, 3, str(2**64 - 1))
    assert taken(partition) == f"{whole}there since {there}, sent 2 times"
    detailed = partition._replace(offset=400, size=60)
    assert taken(detailed) == f"{whole}60 bytes at 400, there since {there}, sent 2 times"
