"""Answers of the API that many pages request every few seconds, shared by viewers with the same rights."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

from admin.pages.api_error import ApiError

GOOD_FOR: Final = 1.0
"""For how many seconds an answer is good."""
_MOST: Final = 64
_FAILURE: Final = 500
Answer = TypeVar("Answer")


class _CachedResponse:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.good_until = float("-inf")
        self.answer: Any = None
        self.trouble: ApiError | None = None


class SharedAnswers:
    """The last answers of the API, shared by viewers and never changed; ``now`` is in monotonic seconds.

    Requests for the same answer at the same time wait for one call. A failure of the API is shared as well, so that
    requests do not wait for one failure after the other; a refusal is not shared.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[Hashable, _CachedResponse] = OrderedDict()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a question, which includes the rights of the viewer; ``ask`` is called without one.

        Raises
        ------
        Refused
            As ``ask`` does.
        """
        kept = self._of(question)
        async with kept.lock:
            if self._now() >= kept.good_until:
                kept.answer, kept.trouble = None, None
                try:
                    kept.answer = await ask()
                except ApiError as refused:
                    if refused.status < _FAILURE:
                        raise
                    kept.trouble = refused
                kept.good_until = self._now() + GOOD_FOR
            if kept.trouble is not None:
                raise kept.trouble
            found: Answer = kept.answer
            return found

    def _of(self, question: Hashable) -> _CachedResponse:
        kept = self._kept.setdefault(question, _CachedResponse())
        self._kept.move_to_end(question)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return kept
