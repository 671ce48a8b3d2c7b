"""Which tests may run beside others: ``make test`` runs two files at a time, then those marked ``alone``."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one process, and those that need Spark all in the same: a session takes ten seconds."""
    for item in items:
        uses_spark = "pipeline" in item.path.relative_to(TESTS).as_posix()
        item.add_marker(pytest.mark.xdist_group("spark" if uses_spark else item.path.stem))
