"""Acceptance tests run the bus, its producers and its subscribers as processes, through the public contract only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess


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
