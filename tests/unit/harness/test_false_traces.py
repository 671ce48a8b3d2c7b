"""The judge of traces sees what an answer does not bear out, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.attack.traces import Answers, lie_of


def delivery(status: str, *codes: int | None) -> dict[str, Any]:
    return {"status": status, "attempts": [{"status_code": code} for code in codes]}


@pytest.mark.parametrize(
    ("told", "given"),
    [
        (delivery("delivered", 200), [200]),
        (delivery("delivered", 503, None, 200), [503, 0, 200]),
        (delivery("delivered", 200), [200, 200]),  # the first answer was lost with the bus
        (delivery("pending"), []),
        (delivery("dead", 422), [422]),
        (delivery("retrying", None), [0]),
    ],
)
def test_what_was_answered_may_be_told(told: dict[str, Any], given: list[int]) -> None:
    assert lie_of(told, Answers(given)) == ""


@pytest.mark.parametrize(
    ("told", "given"),
    [
        (delivery("delivered"), []),
        (delivery("delivered", 200), [503]),
        (delivery("retrying", 503), [503, 200]),
        (delivery("delivered", 503, 503, 200), [503, 200]),
        (delivery("dead", 422), [503]),
    ],
)
def test_what_was_not_answered_is_false(told: dict[str, Any], given: list[int]) -> None:
    assert lie_of(told, Answers(given))
