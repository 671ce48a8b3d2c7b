"""Each row of the requirements on a client: as it is, and in other pieces."""

from __future__ import annotations

import pytest

from tests.harness.verdict_table import cut_anew
from tests.unit.posters.response_verdicts import verdict_of
from tests.unit.posters.rfc9112_responses import ROWS, Row, table


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_response(row: Row) -> None:
    assert verdict_of(row.pieces, ends=row.ends, is_sent=row.is_sent) == row.verdict


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_response_in_other_pieces(row: Row) -> None:
    assert verdict_of(cut_anew(row.pieces), ends=row.ends, is_sent=row.is_sent) == row.verdict


def test_the_printed_table_has_each_row() -> None:
    lines = table(ROWS[::20]).splitlines()
    assert len(lines) == len(ROWS[::20]) + 2
    assert "NOT AS EXPECTED" not in "".join(lines)
