"""Questions to a store that may hang, for callers that cannot wait for its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from bus.async_helpers import first_of
from bus.errors import StoreUnavailable
from bus.ports.clock import Clock

_PATIENCE: Final = 1.0
_PAUSE: Final = 5.0
Answer = TypeVar("Answer")


class BriefQuestions:
    """Waits briefly for the store, and asks nothing for 5 s after it did not answer in time; then one asks first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None  # monotonic seconds; None after an answer

    @property
    def may_ask(self) -> bool:
        """Whether the store is asked now."""
        return self._until is None or self._clock.monotonic() >= self._until

    async def answer(self, questions: Sequence[Awaitable[Answer]], within: float = _PATIENCE) -> list[Answer]:
        """Return the answers to questions that are put because ``may_ask``.

        Raises
        ------
        StoreError
            The store failed, or did not answer within so many seconds.
        """
        if self._until is not None:
            self._until = self._clock.monotonic() + within
        asking = asyncio.ensure_future(_all(questions))
        await first_of(asking, self._clock.sleep(within))
        if asking.cancelled():
            self._until = self._clock.monotonic() + _PAUSE
            raise StoreUnavailable("the store did not answer in time")
        self._until = None  # a failure that comes at once costs no time
        return asking.result()


async def _all(questions: Sequence[Awaitable[Answer]]) -> list[Answer]:
    return await asyncio.gather(*questions)
