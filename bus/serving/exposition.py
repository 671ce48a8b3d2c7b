"""The metrics as Prometheus reads them, made beside the event loop and at most once a second when that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest

from bus.bootstrap import Context, Fill, Introspection
from bus.serving.gauges import measured
from bus.telemetry import metrics

if TYPE_CHECKING:
    from bus.serving.merging import Merger

FRESH: Final = 1.0
"""Seconds for which a text is served again, at most."""
_SHARE: Final = 0.05
"""The part of the time that making texts may take: one that was made quickly is made anew sooner."""


class Exposition:
    """One text for all scrapers, made in a thread: however many ask, they cost little of a core.

    ``siblings`` are the URLs of processes that are told of together with this one.
    """

    def __init__(self, context: Context, introspection: Introspection, siblings: Sequence[str]) -> None:
        self._context = context
        self._siblings = siblings
        self._introspection = introspection
        self._making = asyncio.Lock()
        self._text = b""
        self._fresh_until = 0.0
        self._merger: Merger | None = None

    async def text(self) -> bytes:
        """Return the metrics of now, or of up to ``FRESH`` seconds ago when they take long to make."""
        async with self._making:
            monotonic = self._context.clock.monotonic
            begun = monotonic()
            if begun >= self._fresh_until:
                self._text = await self._made()
                made = monotonic()
                self._fresh_until = made + min(FRESH, (made - begun) / _SHARE)
            return self._text

    async def _made(self) -> bytes:
        text = await asyncio.to_thread(_render, await measured(self._context, self._introspection))
        if not self._siblings:
            return text
        from bus.serving.merging import Merger, fetched  # noqa: PLC0415 - of several processes only

        self._merger = self._merger or Merger()
        others = await fetched(self._siblings, self._context.settings.metrics_key)
        return await asyncio.to_thread(self._merger.merged, text, others)


def _render(fills: Iterable[Fill]) -> bytes:
    for gauge in metrics.SAMPLED:
        gauge.clear()
    for fill in fills:
        fill()
    return generate_latest(metrics.REGISTRY)
