"""The checker on planted histories: each kind of broken promise must be seen, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.checker import Faults, Judgement, Span, check
from tests.harness.history import Event

KEY = "p"
KILL = Span("kill", begin=1000, end=1002, after=1)


def sent(seq: int, result: str | None = "ok") -> list[Event]:
    """Return the steps of one send; None for one that a kill interrupted."""
    steps = ["invoke", *([result] if result else [])]
    return [
        Event(
            t=seq,
            process=KEY,
            type=step,  # type: ignore[arg-type]
            f="publish",
            key=KEY,
            seq=seq,
            sha256=f"hash-{seq}",
            id=f"id-{seq}" if step == "ok" else "",
        )
        for step in steps
    ]


def got(seq: int | None, subscription: str = "a", *, sha256: str = "", id: str = "") -> Event:  # noqa: A002
    """Return a delivery."""
    return Event(
        t=1000,
        process="subscriber",
        type="ok",
        f="deliver",
        key=KEY,
        seq=seq,
        id=id or f"id-{seq}",
        sha256=sha256 or f"hash-{seq}",
        subscription=subscription,
    )


def judge(
    *parts: Event | list[Event], faults: Faults | None = None, drained: bool = True, ordering: str = "none"
) -> Judgement:
    """Judge a history for the subscription ``a``."""
    history = list(itertools.chain.from_iterable(part if isinstance(part, list) else [part] for part in parts))
    return check(history, subscriptions=["a"], drained=drained, faults=faults, ordering=ordering)


def test_everything_delivered_once_is_valid() -> None:
    found = judge(sent(1), sent(2), got(2), got(1))
    assert found.verdict == "valid"
    assert found.passed
    assert found.subscriptions["a"].counts() == {
        "delivered": 2,
        "lost": 0,
        "unexpected": 0,
        "duplicated": 0,
        "uncaused": 0,
        "recovered": 0,
        "after_fail": 0,
        "mismatched": 0,
        "misordered": 0,
    }


def test_an_acknowledged_message_without_delivery_is_lost() -> None:
    found = judge(sent(1), sent(2), got(1))
    assert found.verdict == "invalid"
    assert found.subscriptions["a"].lost == {(KEY, 2): 1}
    assert found.complaints == ["a: 1 lost: [('p', 2)]"]


def test_each_subscription_is_judged_alone() -> None:
    found = check([*sent(1), got(1, "a")], subscriptions=["a", "b"], drained=True)
    assert found.verdict == "invalid"
    assert not found.subscriptions["a"].lost
    assert found.subscriptions["b"].lost == {(KEY, 1): 1}


def test_a_delivery_that_nobody_sent_is_unexpected() -> None:
    found = judge(sent(1), got(1), got(7), got(7))
    assert found.verdict == "invalid"
    assert found.subscriptions["a"].unexpected == {(KEY, 7): 2}
    assert not found.subscriptions["a"].duplicated


def test_a_delivery_under_another_key_is_unexpected() -> None:
    stranger = got(1)
    stranger.key = "other"
    found = judge(sent(1), got(1), stranger)
    assert found.subscriptions["a"].unexpected == {("other", 1): 1}


def test_an_interrupted_send_may_arrive_or_not() -> None:
    arrived, not_arrived = judge(sent(1, None), got(1)), judge(sent(1, None))
    assert arrived.passed
    assert arrived.indeterminate == 1
    assert arrived.subscriptions["a"].recovered == {(KEY, 1): 1}
    assert not_arrived.passed
    assert not not_arrived.subscriptions["a"].recovered


def test_a_timed_out_send_is_no_failure() -> None:
    found = judge(sent(1, "info"), got(1))
    assert found.passed
    assert found.indeterminate == 1


def test_a_delivery_after_a_definite_failure_is_reported() -> None:
    found = judge(sent(1, "fail"), got(1))
    assert found.verdict == "valid"
    assert not found.passed
    assert found.subscriptions["a"].after_fail == {(KEY, 1): 1}


def test_a_changed_body_is_a_mismatch() -> None:
    found = judge(sent(1), got(1, sha256="other"))
    assert not found.passed
    assert found.subscriptions["a"].mismatched == {(KEY, 1): 1}


def test_a_body_without_its_number_is_known_by_the_id() -> None:
    found = judge(sent(1), got(None, id="id-1", sha256="other"))
    assert found.verdict == "valid"
    assert not found.passed
    assert found.subscriptions["a"].mismatched == {(KEY, 1): 1}


def test_a_duplicate_without_a_fault_is_too_many() -> None:
    found = judge(sent(1), got(1), got(1))
    assert found.verdict == "valid"
    assert not found.passed
    assert found.subscriptions["a"].duplicated == {(KEY, 1): 1}


def test_duplicates_are_bounded_by_the_faults() -> None:
    faults, allowed = Faults(crashes=2, window=3, spans=[KILL]), 6
    within = judge(sent(1), *[got(1)] * (allowed + 1), faults=faults)
    beyond = judge(sent(1), *[got(1)] * (allowed + 2), faults=faults)
    assert within.duplicates_allowed == allowed
    assert within.passed
    assert not beyond.passed
    assert beyond.complaints == [f"a: {allowed + 1} duplicated, {allowed} allowed"]
    assert beyond.subscriptions["a"].causes == {"kill": allowed + 1}


@pytest.mark.parametrize(
    ("first", "second", "is_caused"),
    [(1000, 1003, True), (996, 1001, True), (994, 1001, False), (999, 999.5, False), (1004, 1005, False)],
)
def test_a_duplicate_needs_a_fault_at_its_time(first: float, second: float, *, is_caused: bool) -> None:
    again = got(1)
    again.t = second
    once = got(1)
    once.t = first
    found = judge(sent(1), once, again, faults=Faults(crashes=1, window=2, spans=[KILL]))
    assert found.passed == is_caused
    assert found.subscriptions["a"].uncaused == ({} if is_caused else {(KEY, 1): 1})


def test_a_run_that_was_not_drained_is_unknown() -> None:
    found = judge(sent(1), drained=False)
    assert found.verdict == "unknown"
    assert not found.passed


def test_unexpected_is_invalid_even_when_not_drained() -> None:
    assert judge(sent(1), got(9), drained=False).verdict == "invalid"


def test_a_clean_run_that_was_not_drained_does_not_pass() -> None:
    found = judge(sent(1), got(1), drained=False)
    assert found.verdict == "unknown"
    assert found.complaints == ["the run was not drained"]


def test_a_value_sent_twice_may_arrive_twice() -> None:
    found = judge(sent(1, None), sent(1), got(1), got(1))
    assert found.passed
    assert not found.subscriptions["a"].duplicated


def test_order_counts_only_when_asked() -> None:
    parts = sent(1), sent(2), sent(3), got(2), got(1), got(3)
    assert judge(*parts).passed
    found = judge(*parts, ordering="key")
    assert not found.passed
    assert found.subscriptions["a"].misordered == [(KEY, 2)]


def test_a_strict_order_is_one_of_all_keys() -> None:
    parts = sent(1), sent(2), got(2), got(1)
    for event in (parts[0][0], parts[0][1], parts[3]):
        event.key = f"{KEY}.1"
    assert judge(*parts, ordering="key").passed
    assert judge(*parts, ordering="strict").subscriptions["a"].misordered == [(KEY, 2)]


def test_a_redelivery_does_not_break_the_order() -> None:
    parts = sent(1), sent(2), got(1), got(2), got(1)
    assert not judge(*parts, ordering="key").subscriptions["a"].misordered


def test_refused_calls_are_no_deliveries() -> None:
    refused = got(1)
    refused.type = "fail"
    assert judge(sent(1), refused).verdict == "invalid"


@given(ok=st.sets(st.integers(0, 9)), interrupted=st.sets(st.integers(10, 14)), arrived=st.lists(st.integers(0, 19)))
def test_every_delivery_has_exactly_one_name(ok: set[int], interrupted: set[int], arrived: list[int]) -> None:
    published = [*(sent(seq) for seq in sorted(ok)), *(sent(seq, None) for seq in sorted(interrupted))]
    found = judge(*published, *(got(seq) for seq in arrived)).subscriptions["a"]
    expected = sum(seq in ok for seq in arrived) - found.duplicated.total()
    first_of_ok = len(ok) - found.lost.total()
    interrupted_arrived = found.recovered.total()
    assert found.delivered == first_of_ok + interrupted_arrived + found.duplicated.total() + found.unexpected.total()
    assert expected <= first_of_ok
    assert (not found.lost) == (ok <= set(arrived))
    assert (not found.unexpected) == (set(arrived) <= ok | interrupted)
