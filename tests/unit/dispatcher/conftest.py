from __future__ import annotations

import pytest

from tests.unit.dispatcher.dispatcher_world import World


@pytest.fixture
async def world() -> World:
    return World()
