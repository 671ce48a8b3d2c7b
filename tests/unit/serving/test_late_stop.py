"""The log of a stop that takes too long."""

from __future__ import annotations

import asyncio

import pytest

from bus.serving.late_stop import tell_when_late
from tests.harness.waiting import until


async def test_a_late_stop_names_where_each_task_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def outer() -> None:
        await stubborn()

    async def stubborn() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(outer())
    tell_when_late(0.01)
    await until(lambda: caplog.text, what="it is told of")
    assert f"{__name__}:{outer.__code__.co_firstlineno + 1} > {__name__}:" in caplog.text
    assert "asyncio.locks:" in caplog.text
    task.cancel()
