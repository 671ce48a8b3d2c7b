"""The loss of a broker is measured on a real one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench import loss
from bench.run import Run, Size
from tests.servers import need

SMALL = Size(messages=1, seconds=1, backlog=1, rounds=1)


@pytest.mark.proof
@pytest.mark.parametrize("transport", loss.TRANSPORTS)
def test_a_broker_is_lost_and_comes_back_under_load(tmp_path: Path, transport: str) -> None:
    need(transport)
    rows = loss.rows_of(Run(tmp_path, SMALL, Path(), lambda _: None), transport)
    assert len(rows) == 9
    assert not any(math.isnan(row.value) or math.isnan(row.reference) for row in rows)
