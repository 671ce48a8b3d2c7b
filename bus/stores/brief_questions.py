"""Questions to a store that may hang, asked where nobody can wait for its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from bus.errors import StoreUnavailable
from bus.ports.clock import Clock
from bus.waits import first_of

_PATIENCE: Final = 2.0
_PAUSE: Final = 5.0
Answer = TypeVar("Answer")


class BriefQuestions:
    """Waits for the store's answer for 2 s, and asks nothing for 5 s after it did not answer; then one asks first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None  # monotonic seconds; None after an answer

    @property
    def may_ask(self) -> bool:
        """Whether the store is asked now."""
        return self._until is None or self._clock.monotonic() >= self._until

    async def answer(self, question: Awaitable[Answer]) -> Answer:
        """Return the answer to a question that was put because ``may_ask``.

        Raises
        ------
        StoreError
            The store failed, or did not answer in time.
        """
        if self._until is not None:
            self._until = self._clock.monotonic() + _PATIENCE
        asking = asyncio.ensure_future(question)
        await first_of(asking, self._clock.sleep(_PATIENCE))
        if not asking.cancelled() and asking.exception() is None:
            self._until = None
            return asking.result()
        self._until = self._clock.monotonic() + _PAUSE
        if asking.cancelled():
            raise StoreUnavailable("the store did not answer in time")
        return asking.result()
