"""The double as fixtures, for a folder of tests to import into its ``conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.youzan.running import YouzanDouble


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YouzanDouble]:
    """A cluster that no test harms: topics may be, nsqds and nsqlookupds may not."""
    with YouzanDouble(tmp_path_factory.mktemp("youzan")) as double:
        yield double


@pytest.fixture
def own(tmp_path: Path) -> Iterator[YouzanDouble]:
    """A cluster to harm."""
    with YouzanDouble(tmp_path) as double:
        yield double
