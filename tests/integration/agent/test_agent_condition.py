"""The health of an agent, with many callers at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bus.agent.condition import Condition
from bus.agent.options import AgentOptions
from bus.client import Bus
from bus.ports.spool import SpoolStats

NOWHERE = "http://127.0.0.1:9"


async def test_scrapes_at_once_each_have_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filling: list[int] = []
    fill = Condition._fill

    def slowly(self: Condition, stats: SpoolStats) -> None:
        filling.append(1)
        assert len(filling) == 1
        fill(self, stats)
        time.sleep(0.005)
        filling.pop()

    monkeypatch.setattr(Condition, "_fill", slowly)
    options = AgentOptions(url=NOWHERE, api_key=None, spool=tmp_path, source="a", host="127.0.0.1", port=0)
    with Bus(NOWHERE, spool=tmp_path) as bus:
        condition = Condition(bus, options)
        found = await asyncio.gather(*(condition.metrics() for _ in range(8)), condition.health())
    texts = [text for text in found if isinstance(text, bytes)]
    assert len(texts) == 8
    for text in texts:
        assert text.count(b"\nbus_spool_records{") == 2
