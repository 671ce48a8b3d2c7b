"""Each row of the requirements on a server: by the application, by an endpoint, and in other pieces."""

from __future__ import annotations

import pytest

from tests.harness.verdict_table import cut_anew
from tests.unit.http.request_verdicts import DATE, Answer, converse
from tests.unit.http.rfc9112_requests import ROWS, Row, table


def _check_form(answers: list[Answer], *, is_open: bool) -> None:
    """Check what every final answer has: the date, and ``close`` in the last one before the connection is closed."""
    finals = [answer.fields for answer in answers if answer.status >= 200]
    assert {fields["date"] for fields in finals} <= {DATE}
    closing = ["close" in fields.get("connection", "") for fields in finals]
    assert closing == [False] * (len(finals) - 1) + [not is_open] * bool(finals)


def _check(row: Row, *, has_endpoint: bool) -> None:
    found = converse(row.pieces, ends=row.ends, has_endpoint=has_endpoint)
    assert found.verdict == row.verdict
    _check_form(found.answers, is_open=row.verdict.is_open)
    last = found.answers[-1].fields if found.answers else {}
    lines = {*last, *(f"{name}: {value}" for name, value in last.items())}
    assert lines.issuperset(row.has)
    assert lines.isdisjoint(row.lacks)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_request(row: Row) -> None:
    _check(row, has_endpoint=False)


@pytest.mark.parametrize("row", [row for row in ROWS if b"POST / " in row.pieces[0]], ids=str)
def test_request_that_an_endpoint_takes(row: Row) -> None:
    _check(row, has_endpoint=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_request_in_other_pieces(row: Row) -> None:
    assert converse(cut_anew(row.pieces), ends=row.ends).verdict == row.verdict


def test_the_printed_table_has_each_row() -> None:
    lines = table(ROWS[::20]).splitlines()
    assert len(lines) == len(ROWS[::20]) + 2
    assert "NOT AS EXPECTED" not in "".join(lines)
