"""A selection by age never takes more than the one before."""

from __future__ import annotations

import pytest

from admin.pages.parts.selections import older_than
from bus.domain.times import parse_time

NOW = parse_time("2026-11-21T12:00:00Z")


@pytest.mark.parametrize(
    ("own", "until"),
    [
        ({}, "2026-11-21T11:00:00.000Z"),
        ({"to": "2026-11-21T11:30:00Z"}, "2026-11-21T11:00:00.000Z"),
        ({"to": "2026-11-21T11:30:00+02:00"}, "2026-11-21T09:30:00.000Z"),
        ({"to": "2026-11-19T12:00:00Z"}, "2026-11-19T12:00:00.000Z"),
        ({"to": "yesterday"}, "yesterday"),
    ],
)
def test_an_age_narrows_a_selection_and_never_widens_it(own: dict[str, str], until: str) -> None:
    found = older_than({"status": "dead", **own}, "1h", NOW)
    assert found == {"status": "dead", "to": until}
