"""Acceptance tests run the bus, its producers and its subscribers as processes, through the public contract only."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess

_numbers = itertools.count(1)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusProcess]:
    """Run a bus with an empty data directory."""
    with BusProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def subscriber(tmp_path: Path) -> Iterator[SubscriberProcess]:
    """Run a subscriber that answers every path at once and records each call."""
    with SubscriberProcess(tmp_path) as process:
        yield process


@pytest.fixture(scope="module")
def shared_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    """Run a bus for the tests of a module, which harm nothing of it: each has a destination of its own (``code``)."""
    with BusProcess(tmp_path_factory.mktemp("shared") / "data") as process:
        yield process


@pytest.fixture(scope="module")
def shared_subscriber(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubscriberProcess]:
    """Run a subscriber for the tests of a module, which use paths of their own."""
    with SubscriberProcess(tmp_path_factory.mktemp("shared-subscriber")) as process:
        yield process


@pytest.fixture
def code() -> str:
    """Return a destination that no other test uses."""
    return f"orders-{next(_numbers)}"
