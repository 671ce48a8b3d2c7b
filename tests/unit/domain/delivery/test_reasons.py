"""Reasons of the bus are known again by their words; what others wrote stays as it is."""

from __future__ import annotations

import pytest

from bus.domain.delivery.delivery import Delivery, Status
from bus.domain.delivery.reasons import REASONS, reason_of
from bus.domain.delivery.retry import RetryPolicy
from bus.domain.delivery.verdict import Answer, judge
from bus.domain.subscription import Subscription
from bus.localized_text import AnyText, localized
from bus.testing.writes import NOON, attempt, message


@pytest.mark.parametrize("text", sorted(REASONS))
def test_a_reason_without_values_is_its_own_template(text: str) -> None:
    assert reason_of(text) == localized(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deliver at 2026-11-21T12:00:00.000Z", localized("deliver at {time}", time="2026-11-21T12:00:00.000Z")),
        ("resent by ann", localized("resent by {name}", name="ann")),
        ("set aside by key ops", localized("set aside by {name}", name="key ops")),
        (
            "set aside by ann: no such\nsku: 9",
            localized("set aside by {name}: {reason}", name="ann", reason="no such\nsku: 9"),
        ),
        (
            "a; b\nc; retries exhausted after 12",
            localized("{reason}; retries exhausted after {count}", reason="a; b\nc", count=12),
        ),
    ],
)
def test_values_are_found(text: str, expected: AnyText) -> None:
    found = reason_of(text, by="ann")
    assert found == expected
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HTTP 503",
        "resent by mistake",
        "filtered",
        "deliver at noon",
        "set aside by ",
        "was set aside by ann",
        "{reason}",
        "x paused",
    ],
)
def test_other_words_stay(text: str) -> None:
    assert reason_of(text, by="ann") is text


def test_the_end_of_the_retries_is_known_again() -> None:
    subscription = Subscription(destination="orders", name="billing", url="u", retry=RetryPolicy(max_attempts=1))
    outcome = judge(
        Delivery(message(), "billing"), subscription, attempt("a", 1, NOON), Answer(503, "", None), now=NOON, noise=0.5
    )
    assert outcome.status is Status.DEAD
    assert reason_of(outcome.reason) == localized(
        "{reason}; retries exhausted after {count}", reason="HTTP 503", count=1
    )
