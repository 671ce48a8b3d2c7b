"""Failures of one kind have one signature, and others have not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.intervention import BY_A_PERSON
from bus.domain.searching.selection import Selection
from bus.domain.tracing.failures import FailureCount, FailureGroup
from bus.domain.tracing.signature import MOST_CHARACTERS, UNKNOWN, signature_of
from bus.domain.tracing.trace import DeliveryTrace, failure_of, is_chosen


@pytest.mark.parametrize(
    ("reason", "signature"),
    [
        ("HTTP 503", "HTTP 503"),
        ("HTTP 503; retries exhausted after 12", "HTTP 503"),
        ("10.0.0.7: nobody listens on port 9000", "<address>: nobody listens on port <n>"),
        ("::1: nobody listens on port 9000; retries exhausted after 1", "<address>: nobody listens on port <n>"),
        ("[fe80::1]:80: timed out in phase connect", "<address>: timed out in phase connect"),
        ("2001:db8:0:1:1:1:1:1: timed out", "<address>: timed out"),
        ("shop.example: Name or service not known", "shop.example: Name or service not known"),
        ("timed out in phase tls", "timed out in phase tls"),  # as earlier versions wrote it
        ("connection refused by 10.0.0.7:9000", "connection refused by <address>"),
        ("connection refused by [::1]:9000; retries exhausted after 3", "connection refused by <address>"),
        ("connection refused by a.example:9000", "connection refused by a.example:<n>"),
        ("timed out after 9.5 s waiting for the response", "timed out after <n> s waiting for the response"),
        ("TLS: certificate expired on 2026-11-29", "TLS: certificate expired on <time>"),
        ("no 019a2f4e-0000-7000-8000-000000000000 here", "no <id> here"),
        ("key deadbeef01 at 0123456789abcdef, not facade or decade", "key <id> at <id>, not facade or decade"),
        ("expired 2026-01-31T12:00:00.123Z, not at 23:59:59", "expired <time>, not at <time>"),
        ("see https://x.example/a?b=1 for 3.5 MB", "see <url> for <n> MB"),
        ("a  lot\n\tof\r\nroom ", "a lot of room"),
        ("set aside by ann: order 42 was canceled", BY_A_PERSON),
        ("set aside by key ops", BY_A_PERSON),
        ("", UNKNOWN),
        ("   ", UNKNOWN),
        ("; retries exhausted after 3", UNKNOWN),
    ],
)
def test_what_differs_is_taken_out(reason: str, signature: str) -> None:
    assert signature_of(reason) == signature


def test_other_statuses_and_other_words_stay_apart() -> None:
    reasons = ["HTTP 500", "HTTP 503", "HTTP 404", "timed out in phase tls", "timed out in phase connect"]
    assert len(set(map(signature_of, reasons))) == len(reasons)


@given(st.text(max_size=3000))
def test_any_text_has_a_short_signature(reason: str) -> None:
    found = signature_of(reason)
    assert 0 < len(found) <= MOST_CHARACTERS
    assert not any(character.isspace() and character != " " for character in found)


def test_a_long_reason_is_no_long_work() -> None:
    assert len(signature_of("1:" * 500_000)) <= MOST_CHARACTERS


@pytest.mark.parametrize("status", list(Status))
def test_only_what_fails_has_one(status: Status) -> None:
    delivery = DeliveryTrace(status=status, reason="HTTP 500")
    fails = status in (Status.RETRYING, Status.PARKED, Status.DEAD)
    assert failure_of(delivery) == ("HTTP 500" if fails else None)
    assert is_chosen(delivery, Selection(signature="HTTP 500")) is fails
    assert not is_chosen(delivery, Selection(signature="HTTP 503"))
    assert is_chosen(delivery, Selection(status=status))


def group(signature: str, count: int, at: int, sample: str = "a") -> FailureGroup:
    return FailureGroup("orders", "billing", signature, {Status.DEAD: count}, at, at, sample)


def test_groups_of_one_kind_come_together_the_largest_first() -> None:
    count = FailureCount()
    for one in (group("x", 1, 5, "b"), group("y", 3, 1), group("x", 1, 2, "a"), group("z", 1, 1)):
        count.add(one)
    found = count.largest(2, since=7)
    assert [(one.signature, one.count) for one in found.groups] == [("y", 3), ("x", 2)]
    assert (found.groups[1].first_at, found.groups[1].last_at, found.groups[1].sample) == (2, 5, "b")
    assert (found.left_out, found.since) == (1, 7)
