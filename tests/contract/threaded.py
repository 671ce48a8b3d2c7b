"""A blocking spool in the shape of the async port."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from bus.spool import BlockingSpool

SLOW = {"append", "claim", "wait", "settle", "close"}


class Threaded:
    """Each slow call runs in a thread of its own."""

    def __init__(self, spool: BlockingSpool) -> None:
        self._spool = spool

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._spool, name)
        return partial(asyncio.to_thread, method) if name in SLOW else method
