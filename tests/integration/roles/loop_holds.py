"""How long a call keeps the loop's thread to itself, in CPU time: what the machine's neighbours do is not in it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Awaitable, Callable


def limit() -> float:
    """Return the CPU time of what takes about 20 ms on the machine that the bus was measured on."""
    begun = time.thread_time()
    for number in range(20_000):
        hashlib.sha256(b"%d" % number).hexdigest()
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
