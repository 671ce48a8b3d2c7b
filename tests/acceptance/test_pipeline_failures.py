"""A failure inside Spark is one line on standard error and exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.jobs import archive
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import MESSAGES
from tests.harness.jobs import WITHIN, pipeline
from tests.harness.made_lake import put


@pytest.mark.timeout(2 * WITHIN)
def test_a_condition_that_fails_on_a_row_is_told_in_a_line(tmp_path: Path) -> None:
    lake = Lake(Storage(str(tmp_path / "lake")))
    put(lake, archive.LINE, {MESSAGES: [{"id": "a", "arrived": True, "biz_id": "A-1"}]})
    done = pipeline("replay", "again", "--lake", lake.storage.root, "--where", "cast(biz_id as int) > 5")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "[CAST_INVALID_INPUT] The value 'A-1'" in line
    assert "committed batches stay" in line
    assert "Traceback" not in done.stderr
    assert '"stacktrace"' not in done.stderr
    assert not lake.names("replay-v1")
