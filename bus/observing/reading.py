"""A value that is cached, so that it is read only now and then, however many ask for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from bus.errors import StoreError
from bus.ports.clock import Clock

_log = logging.getLogger(__name__)
_SHARE: Final = 20  # a value is good for 20 times as long as it took to read
_PATIENCE: Final = 2.0
Value = TypeVar("Value")


class CachedCall(Generic[Value]):
    """The cached result of ``read``; concurrent callers share one call.

    Parameters
    ----------
    least
        Seconds for which a value is good at least; longer when it takes long to read.
    """

    def __init__(self, read: Callable[[], Awaitable[Value]], clock: Clock, *, least: float) -> None:
        self._read = read
        self._clock = clock
        self._least = least
        self._value: Value | None = None
        self._good_until = float("-inf")
        self._reading = asyncio.Lock()

    async def value(self) -> Value | None:
        """Return the value; None when the store fails or takes longer than 2 s."""
        async with self._reading:
            begun = self._clock.monotonic()
            if begun >= self._good_until:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        self._value = await self._read()
                except (StoreError, TimeoutError) as error:
                    _log.debug("a figure of the overview is not known: %s", error)
                    self._value = None
                now = self._clock.monotonic()
                self._good_until = now + max(self._least, _SHARE * (now - begun))
            return self._value
