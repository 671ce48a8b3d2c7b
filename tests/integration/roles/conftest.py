from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.roles.roles_world import Subscriber


@pytest.fixture
async def subscriber() -> AsyncIterator[Subscriber]:
    subscriber = Subscriber()
    await subscriber.start()
    yield subscriber
    await subscriber.close()
