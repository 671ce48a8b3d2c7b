from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.doubles.youzan.running import YouzanDouble

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YouzanDouble]:
    """A cluster that no test harms: topics may be, nsqds and nsqlookupds may not."""
    with YouzanDouble(tmp_path_factory.mktemp("youzan")) as double:
        yield double


@pytest.fixture
def own(tmp_path: Path) -> Iterator[YouzanDouble]:
    """A cluster to kill."""
    with YouzanDouble(tmp_path) as double:
        yield double


@pytest.fixture
def code() -> str:
    """A destination that no other test uses."""
    return f"orders-{next(_numbers)}"


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}
