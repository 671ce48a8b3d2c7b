"""Writes of one message give the same document in any order and any number."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.domain.delivery.delivery import FINAL, Attempt, Origin, Outcome, Resend, Status
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.trace import (
    Trace,
    attempts_in_order,
    decode_trace,
    encode_trace,
    is_finished,
    matches,
    merge_message,
    merge_outcome,
    start_trace,
)
from bus.testing.writes import NOON, attempt, message, outcome

NAMES = ("a", "b")
SMALL = st.integers(0, 2)

messages = st.builds(
    message,
    received_at=SMALL,
    body=st.sampled_from([b"", b"x", b"xy"]),
    expected=st.sampled_from([(), ("a",), ("b",), NAMES]),
    source=st.sampled_from(["p", "q"]),
)
attempts = st.builds(
    Attempt,
    id=st.sampled_from(["1", "2"]),
    n=SMALL,
    by=st.just(Origin.TRANSPORT),
    started_at=SMALL,
    duration=st.sampled_from([0.5, 1.0]),
    phases=st.sampled_from([(None,) * 6, (None, 1.0, None, None, None, None)]),
    status_code=st.sampled_from([None, 200]),
    error=st.sampled_from(["", "reset"]),
    response=st.just(b""),
    node=st.just("n"),
)
resends = st.builds(
    Resend,
    generation=SMALL,
    job=st.sampled_from(["", "j"]),
    by=st.sampled_from(["ann", "bob"]),
    reason=st.sampled_from(["", "fixed"]),
    at=SMALL,
)
outcomes = st.builds(
    Outcome,
    message_id=st.just(message().id),
    destination=st.just(message().destination),
    subscription=st.sampled_from(NAMES),
    retention_days=st.just(30),
    url=st.sampled_from(["", "http://one", "http://two"]),
    status=st.sampled_from(Status),
    generation=st.integers(0, 1),
    at=SMALL,
    reason=st.sampled_from(["", "paused"]),
    attempt=st.none() | attempts,
    due_at=SMALL,
    attempts=SMALL,
    resend=st.none() | resends,
)
writes = st.lists(messages | outcomes, min_size=1, max_size=6)


def document(of: Sequence[Message | Outcome]) -> Trace:
    trace = start_trace(message().id, message().destination, 30)
    merge(trace, of)
    return trace


def merge(trace: Trace, of: Sequence[Message | Outcome]) -> None:
    for write in of:
        if isinstance(write, Message):
            merge_message(trace, write)
        else:
            merge_outcome(trace, write)


@given(writes, st.data())
def test_merges_commute_and_are_idempotent(of: list[Message | Outcome], data: st.DataObject) -> None:
    repeated = of + data.draw(st.lists(st.sampled_from(of), max_size=4))
    assert document(data.draw(st.permutations(repeated))) == document(of)


@given(writes, writes)
def test_a_document_that_was_stored_merges_like_one_that_was_not(
    first: list[Message | Outcome], second: list[Message | Outcome]
) -> None:
    stored = decode_trace(encode_trace(document(first)))
    merge(stored, second)
    assert stored == document(second + first)


@given(writes)
def test_status_is_the_worst_and_completion_the_last(of: list[Message | Outcome]) -> None:
    trace = document(of)
    states = [delivery.status for delivery in trace.deliveries.values()]
    assert trace.status in (states or [Status.SKIPPED])
    assert (Status.DEAD in states) == (trace.status is Status.DEAD)
    if states and all(state in FINAL for state in states):
        assert trace.completed_at == max(delivery.at for delivery in trace.deliveries.values())
    elif states:
        assert trace.completed_at == 0


@given(st.permutations(range(4)))
def test_the_winner_says_so(order: list[int]) -> None:
    sent = [message(received_at=5), message(received_at=3), message(received_at=3, source="a"), message(received_at=9)]
    trace = start_trace(message().id, message().destination, 30)
    winner = None
    for place in order:
        if merge_message(trace, sent[place]):
            winner = sent[place]
    assert winner == sent[2]


def test_a_pending_delivery_takes_its_time_from_the_message() -> None:
    trace = document([outcome(message(), "mail", Status.DELIVERED), message(received_at=7), message(received_at=4)])
    assert trace.deliveries["billing"].at == 4
    assert trace.deliveries["mail"].at == message().received_at + 10


def test_a_reason_for_waiting_outlives_the_message_that_implies_it() -> None:
    paused = outcome(message(), "billing", Status.PENDING, 0, reason="paused", at=1, attempt=None)
    for of in ([paused, message()], [message(), paused]):
        assert document(of).deliveries["billing"].reason == "paused"


@pytest.mark.parametrize(
    ("status", "generation", "finished"),
    [
        (Status.DELIVERED, 1, True),
        (Status.RETRYING, 1, False),
        (Status.RETRYING, 0, True),
        (Status.DEAD, 2, False),
    ],
)
def test_is_finished_by_state_or_by_a_newer_generation(status: Status, generation: int, *, finished: bool) -> None:
    trace = document([message(), outcome(message(), "billing", status, generation=1)])
    assert is_finished(trace, "billing", generation) is finished
    assert not is_finished(trace, "nobody", 0)


@pytest.mark.parametrize("other", sorted(set(Status) - {Status.DELIVERED}))
def test_delivered_is_above_every_other_state_of_its_generation(other: Status) -> None:
    delivered = outcome(message(), "billing", Status.DELIVERED)
    later = outcome(message(), "billing", other, 2)
    for order in ([delivered, later], [later, delivered]):
        assert document([message(), *order]).deliveries["billing"].status is Status.DELIVERED


def test_attempts_are_listed_by_number() -> None:
    trace = document([outcome(message(), "billing", Status.RETRYING, n) for n in (3, 1, 2)])
    assert [attempt.n for attempt in attempts_in_order(trace.deliveries["billing"])] == [1, 2, 3]


def test_a_selection_needs_every_condition() -> None:
    trace = document([message(), outcome(message(), "billing", Status.DEAD)])
    fits = Selection(
        destination="orders",
        subscription="billing",
        status=Status.DEAD,
        biz_id="order-0",
        source="shop",
        since=NOON,
        before=NOON + 1,
        text="der-",
    )
    assert matches(trace, fits)
    changes = ({"destination": "x"}, {"subscription": "mail"}, {"status": Status.DELIVERED}, {"biz_id": ""})
    more = ({"source": "x"}, {"since": NOON + 1}, {"before": NOON}, {"text": "nowhere"})
    for change in (*changes, *more):
        fields = {name: getattr(fits, name) for name in fits.__struct_fields__}
        assert not matches(trace, Selection(**fields | change)), change
    assert not matches(document([outcome(message(), "billing", Status.DEAD)]), fits)


def test_of_many_attempts_the_first_and_the_last_are_kept_in_any_order() -> None:
    made = [replace(attempt(f"a{n}", n, n), response=b"no") for n in range(1, 1_301)]
    outcomes = [outcome(message(), "billing", Status.RETRYING, one.n, attempt=one) for one in made]
    traces = []
    for seed in range(3):
        order = [*outcomes, *outcomes[::7]]
        random.Random(seed).shuffle(order)
        trace = start_trace(message().id, "orders", 30)
        for one in order:
            merge_outcome(trace, one)
        traces.append(trace)
    assert traces[0] == traces[1] == traces[2]
    delivery = traces[0].deliveries["billing"]
    assert delivery.attempts_made == 1_300
    kept = attempts_in_order(delivery)
    assert [one.n for one in kept] == [*range(1, 101), *range(401, 1_301)]
    assert [one.n for one in kept if one.response] == [*range(1_201, 1_301)]


def test_of_many_resends_the_first_and_the_last_are_kept_in_any_order() -> None:
    made = [Resend(n, f"job-{n}", "ann", "fixed", NOON + n) for n in range(1, 101)]
    repeated = [replace(one, at=one.at + 5) for one in made[::3]]
    traces = []
    for seed in range(3):
        order = [*made, *repeated]
        random.Random(seed).shuffle(order)
        trace = start_trace(message().id, "orders", 30)
        for one in order:
            merge_outcome(
                trace, outcome(message(), "billing", Status.RESEND, generation=one.generation, attempt=None, resend=one)
            )
        traces.append(trace)
    assert [trace.deliveries["billing"].resends for trace in traces] == [(*made[:10], *made[60:])] * 3
