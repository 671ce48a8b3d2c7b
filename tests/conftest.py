"""The setup of test runs: see ``tests/suite``."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from xdist.remote import Producer

from tests.suite.examples import register_profiles
from tests.suite.guard import Guard, OwnFixtures
from tests.suite.spread import BySharedCost, arrange

TESTS = Path(__file__).parent
SPARK = "pipeline"  # in the paths of tests that start a Java with Spark
# What others leave to the garbage collector, by what is in the paths of the tests: PySpark sockets of any kind, and
# PyMongo one that it was connecting when the task was cancelled (its handlers of errors know of no cancellation).
LEFT = {
    SPARK: "ignore::pytest.PytestUnraisableExceptionWarning",
    "mongodb": "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning",
}

# Most Javas of tests are short: the second compiler costs more than it saves, threefold when both cores are busy.
# What is measured (bench) runs as the product does.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer what ``make test`` asks for."""
    parser.addoption("--guard", action="store_true", help="fail a whole run in which something has grown slow")


def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests take, where they run and in the one process that hears of all."""
    config.pluginmanager.register(OwnFixtures(), "own fixtures")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Guard(enforce=config.getoption("--guard")), "guard")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedCost:
    """Choose how tests are spread over processes."""
    return BySharedCost(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what stays to the end anyhow: that takes nearly half of a collection's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # markers are selected by after it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests; let pass what others leave behind, and give Spark its time."""
    arrange(items)
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        for part, warning in LEFT.items():
            if part in path:
                item.add_marker(pytest.mark.filterwarnings(warning))
        if SPARK in path and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
