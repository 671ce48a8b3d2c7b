"""The contract of stores for calls whose caller is cancelled."""

# ruff: noqa: D102, S101

from __future__ import annotations

import asyncio
from typing import Final

from bus.ports.store import Store

_TURNS: Final = 60
_TIMES: Final = 3
_WITHIN: Final = 5.0


class CancellationContract:
    """Whoever is cancelled within a call ends: a store's client that keeps that to itself would hold up a stop."""

    async def test_a_caller_ends_at_whichever_turn_of_the_loop_it_is_cancelled(self, store: Store) -> None:
        await store.put("c", "k", b"")

        async def call_for_ever() -> None:
            while True:
                await store.get("c", "k")
                await asyncio.sleep(0)  # one in memory never does

        for turns in [*range(_TURNS)] * _TIMES:
            caller = asyncio.ensure_future(call_for_ever())
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.cancel()
            done, _ = await asyncio.wait([caller], timeout=_WITHIN)
            assert done, f"a cancellation {turns} turns of the loop after the first call was lost"
            assert caller.cancelled()
