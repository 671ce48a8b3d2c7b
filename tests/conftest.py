"""Which tests may run beside others: ``make test`` runs two files at a time, then those marked ``alone``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
SPARK = "pipeline"  # in the paths of tests that need a Spark session

# Most Javas of tests are short: the second compiler costs more than it saves, threefold when both cores are busy.
# What is measured (bench) runs as the product does.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


class ByFile(LoadFileScheduling):
    """Has the tests of a file in one process, and all that need Spark in the same: a session takes ten seconds."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SPARK if SPARK in file else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Choose how tests are spread over processes."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass what PySpark does: it leaves sockets to the garbage collector, and takes long on busy cores."""
    for item in items:
        if SPARK in item.path.relative_to(TESTS).as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
