from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from tests.doubles.youzan.fixtures import own, shared

__all__ = ["own", "shared"]

_numbers = itertools.count(1)


@pytest.fixture
def code() -> str:
    """A destination that no other test uses."""
    return f"orders-{next(_numbers)}"


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}
