"""Garbage of a POST once it has ended."""

from __future__ import annotations

import gc
from typing import Any

from bus.ports.poster import OngoingPost
from dispatcher.exchange import Exchange


class Kept:
    """A POST under way, which tells its exchange."""

    def __init__(self, waiter: Exchange) -> None:
        self.waiter = waiter

    def cancel(self) -> None:
        """Nothing is under way."""


class Poster:
    def begin(self, *args: Any) -> OngoingPost:
        return Kept(args[-1])


class Maker:
    def made(self, *_: object) -> None:
        return None

    def told(self, *_: object) -> None:
        """Take no notice."""


def post() -> None:
    exchange = Exchange(Maker(), [], 0, is_probe=False)  # type: ignore[arg-type]
    exchange.post = (None, [], b"", 1.0)  # type: ignore[assignment]
    assert exchange.begin(Poster())  # type: ignore[arg-type]
    exchange.set_result(None)  # type: ignore[arg-type]


def test_nothing_is_left_to_the_garbage_collector() -> None:
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(10):
            post()
        gc.collect()
        left = [one for one in gc.garbage if isinstance(one, (Exchange, Kept))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == []
