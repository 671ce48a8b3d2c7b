"""Which tests may run beside others: ``make test`` runs two files at a time, then those marked ``alone``."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one process, and those that need Spark all in the same: a session takes ten seconds.

    PySpark leaves sockets to the garbage collector, and its jobs take long when every core is busy.
    """
    for item in items:
        if "pipeline" in item.path.relative_to(TESTS).as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
        else:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
