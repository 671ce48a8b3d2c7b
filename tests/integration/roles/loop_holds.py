"""The CPU time for which a call holds the loop's thread, without the effect of other processes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable


def limit() -> float:
    """Return the CPU time of a set piece of the interpreter's work, about 15 ms: what a call may take at once.

    It is work of the kind that calls are made of: what some machines have instructions for, as hashing, would be too
    strict a limit on those.
    """
    begun = time.thread_time()
    for number in range(7_000):
        json.loads(json.dumps({"number": number}))
    return time.thread_time() - begun


async def longest_hold(call: Callable[[], Awaitable[object]]) -> float:
    """Return the most CPU time that the loop's thread took between two turns of something else, during a call."""
    turns: list[float] = []

    async def look() -> None:
        while True:
            turns.append(time.thread_time())
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    await call()
    await asyncio.sleep(0)
    looking.cancel()
    return max(later - earlier for earlier, later in itertools.pairwise(turns))
