"""Notification texts in every case that there is: never empty, and the present before the past."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Notice
from bus.domain.health.incidents import Incident
from bus.testing.writes import NOON
from compensator.alarms.texts import sign_of_life, text_of, trial
from tests.unit.admin.incident_shapes import raised

SHAPES = list(itertools.product(Notice, (1, 2, 9), (0, 3), ("", "https://bus.example")))


@pytest.mark.parametrize(("notice", "count", "left_out", "pages"), SHAPES)
def test_each_notice_has_a_title_and_a_body(notice: Notice, count: int, left_out: int, pages: str) -> None:
    alarms = {str(number): raised() for number in range(count)}
    closed = NOON + 60_000 if notice is Notice.OVER else 0
    incident = Incident(id="i1", cause="c", opened_at=NOON, alarms=alarms, left_out=left_out, closed_at=closed)
    title, body = text_of(notice, incident, pages, NOON + 90_000)
    assert "3 messages wait" in title
    assert ("over after 60s" in title) == (notice is Notice.OVER)
    assert body.startswith("It is not found any more." if notice is Notice.OVER else "What to do: look.")
    assert (f"and {count - 5 + left_out} more" in body) == (count > 1 and count - 5 + left_out > 0)
    assert body.endswith("/admin/alarms/i1") == bool(pages)


def test_what_only_ages_out_is_still_to_be_done() -> None:
    dead = msgspec.structs.replace(raised(), rule="dead")
    incident = Incident(id="i1", cause="c", opened_at=NOON, alarms={"a": dead}, closed_at=NOON + 1)
    assert text_of(Notice.OVER, incident, "", NOON).body.startswith("What to do still: look.")


def test_the_worst_is_named_first() -> None:
    alarms = {"a": raised(), "b": raised(None, Severity.CRITICAL)}
    incident = Incident(id="i1", cause="c", opened_at=NOON, alarms=alarms)
    assert text_of(Notice.WORSE, incident, "", NOON).title.startswith("Pier worse, critical now: ")


@pytest.mark.parametrize("pages", ["", "https://bus.example"])
def test_signs_of_life_and_trials_say_where_the_bus_is(pages: str) -> None:
    for title, body in (sign_of_life(pages), trial("eve", pages)):
        assert title.startswith("Pier ")
        assert body.endswith(pages)
