"""The parts of a delivery's time, to be drawn."""

from __future__ import annotations

from typing import Any

import pytest

from admin.models.responses.messages import AttemptView, DeliveryView
from admin.pages.tracing.waterfall import LeftOut, Part, Pause, TimedAttempt, drawn, parts_of
from bus.domain.delivery.delivery import Origin, Status
from bus.domain.times import format_time
from bus.testing.writes import NOON

ALL = {"queue": 1.0, "dns": 2.0, "connect": 3.0, "tls": 4.0, "send": 1.0, "first_byte": 20.0, "receive": 2.0}


def attempt(n: int, at: int, duration: float = 32.0, **changes: Any) -> AttemptView:
    fields: dict[str, Any] = {
        "id": f"a{n}",
        "n": n,
        "by": Origin.RETRY,
        "started_at": format_time(NOON + at),
        "duration_ms": duration,
        "phases": ALL,
        "status_code": 500,
        "error": None,
        "response": None,
        "node": "n",
        "generation": 0,
        "taken_at": None,
        "batch": None,
        "out_of_order": False,
    }
    return AttemptView(**fields | changes)


def parts(*attempts: AttemptView, received: int | None = 0, due: int | None = None, status: str = "") -> list[Part]:
    delivery = DeliveryView(
        subscription="erp",
        url="",
        status=Status(status or ("retrying" if due is not None else "dead")),
        reason="",
        detail="",
        at=None,
        due_at=format_time(NOON + due) if due is not None else None,
        generation=0,
        attempts_made=len(attempts),
        attempts_kept=len(attempts),
        resends=[],
        held=None,
        attempts=list(attempts),
    )
    return parts_of(delivery, format_time(NOON + received) if received is not None else None)


def test_the_way_each_attempt_and_the_pauses_between_them() -> None:
    first = attempt(1, 10, taken_at=format_time(NOON + 9))
    found = parts(first, attempt(2, 5_042), due=35_074)
    assert [one for one in found if isinstance(one, Pause)] == [
        Pause("way", 9),
        Pause("pause", 5_000),
        Pause("due", 30_000),
    ]
    made = [one for one in found if isinstance(one, TimedAttempt)]
    assert [one.attempt.n for one in made] == [1, 2]
    assert made[0].phases == list(ALL.items())
    assert drawn(found) == set(ALL)


def test_only_what_was_measured_has_a_phase() -> None:
    nothing, half = parts(attempt(1, 0, 1_000.0, phases={}), attempt(2, 1_000, phases={"send": 2.0}))
    assert isinstance(nothing, TimedAttempt)
    assert isinstance(half, TimedAttempt)
    assert (nothing.phases, nothing.untold) == ([], 1_000.0)
    assert (half.phases, half.untold) == ([("send", 2.0)], 30.0)
    assert drawn([nothing, half]) == {"send", "untold"}


def test_clocks_that_disagree_make_no_time() -> None:
    found = parts(attempt(1, -50, phases={"queue": -3.0, "send": 1.0}, duration=1.0), received=0)
    assert [type(one) for one in found] == [TimedAttempt]
    assert found[0].phases == [("queue", 0.0), ("send", 1.0)]


@pytest.mark.parametrize("received", [None, 0])
def test_what_is_not_known_is_not_drawn(received: int | None) -> None:
    assert [type(one) for one in parts(attempt(1, 0), received=received)] == [TimedAttempt]
    assert parts(received=received, due=1_000) == []


def test_what_has_ended_waits_for_nothing() -> None:
    assert not [one for one in parts(attempt(1, 0), due=90, status="delivered") if isinstance(one, Pause)]


def test_of_many_the_first_and_the_last_are_drawn() -> None:
    found = parts(*(attempt(n, n * 1_000) for n in range(1, 41)))
    assert [one.attempt.n for one in found if isinstance(one, TimedAttempt)] == [*range(1, 7), *range(35, 41)]
    assert [one for one in found if isinstance(one, LeftOut)] == [LeftOut(28)]
