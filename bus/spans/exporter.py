"""From recorded spans to a collector: in the background, in batches, and without holding anything up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from bus.async_helpers import first_of
from bus.domain.tracing.spans import Span, Value
from bus.ports.clock import Clock
from bus.spans.collector import Collector, CollectorReply
from bus.spans.otlp import encode_request, encode_span
from bus.spans.recorder import BATCH_SPANS, SpanRecorder, new_span_id
from bus.telemetry import metrics

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 100
_EVERY: Final = 1.0
_CLOSE_WITHIN: Final = 0.4
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
STOP_WITHIN: Final = 1.5


class _Batch(NamedTuple):
    body: bytes
    size: int


class SpanExporter:
    """Sends what a recorder has, every second or thousand spans.

    One request at a time is under way. One that a collector does not take now is kept and sent again, while what comes
    meanwhile waits in the recorder, up to its bound.

    Parameters
    ----------
    resource
        Who tells, by OpenTelemetry's names.
    """

    def __init__(
        self,
        recorder: SpanRecorder,
        collector: Collector,
        resource: Mapping[str, Value],
        version: str,
        clock: Clock,
    ) -> None:
        self._recorder = recorder
        self._collector = collector
        self._resource = resource
        self._version = version
        self._clock = clock
        self._batch: _Batch | None = None
        self._pause = _FIRST_PAUSE

    async def run(self) -> None:
        """Send until cancelled; ``close`` sends the rest."""
        while True:
            await self._wait_for_spans()
            try:
                pause = await self._step()
            except Exception:  # noqa: BLE001 - whatever it is, messages go on
                _log.exception("spans are in trouble, messages are not")
                pause = _FIRST_PAUSE
            await self._clock.sleep(pause)

    async def close(self, within: float = STOP_WITHIN) -> None:
        """Send what is left, as far as that goes in so many seconds; the rest is dropped."""
        try:
            async with asyncio.timeout(within):
                while (self._batch is not None or len(self._recorder)) and not await self._step():
                    pass
        except TimeoutError:
            _log.warning("the last spans were not taken within %g s", within)
        except Exception:  # noqa: BLE001 - a stop goes on
            _log.exception("the last spans could not be sent")
        left = self._recorder.drop() + (self._batch.size if self._batch is not None else 0)
        self._batch = None
        if left:
            metrics.SPANS_DROPPED.labels("stopped").inc(left)
            _log.warning("%d spans were dropped at the stop; no message was", left)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WITHIN):
                await self._collector.close()

    async def _wait_for_spans(self) -> None:
        """Wait for a second, or until there are enough for a request."""
        if self._batch is None and len(self._recorder) < BATCH_SPANS:
            self._recorder.full.clear()
            await first_of(self._recorder.full.wait(), self._clock.sleep(_EVERY))

    async def _step(self) -> float:
        """Send one batch, if there is any; return for how many seconds to wait then."""
        if self._batch is None:
            spans = self._recorder.take(BATCH_SPANS)
            if not spans:
                return 0.0
            try:
                self._batch = await self._encoded(spans)
            except asyncio.CancelledError:
                self._recorder.put_back(spans)
                raise
        taken = await self._collector.take(self._batch.body)
        if taken.trouble and taken.may_repeat:
            return self._put_off(taken)
        self._told(self._batch, taken)
        self._batch = None
        return 0.0

    async def _encoded(self, spans: Sequence[Span]) -> _Batch:
        """Encode spans, some in each turn of the loop; one that cannot be is dropped."""
        encoded: list[bytes] = []
        for first in range(0, len(spans), _AT_ONCE):
            for span in spans[first : first + _AT_ONCE]:
                try:
                    encoded.append(encode_span(span, span.span_id or new_span_id()))
                except Exception:  # noqa: BLE001 - a defect costs a span
                    _log.exception("a span cannot be encoded")
                    metrics.SPANS_DROPPED.labels("broken").inc()
            await asyncio.sleep(0)
        return _Batch(encode_request(self._resource, self._version, encoded), len(encoded))

    def _put_off(self, taken: CollectorReply) -> float:
        if not self._recorder.trouble:
            _log.warning("spans wait, and are dropped beyond what memory holds: %s", taken.trouble)
        self._recorder.trouble = taken.trouble
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause

    def _told(self, batch: _Batch, taken: CollectorReply) -> None:
        """Count what was taken, or refused for good."""
        rejected = batch.size if taken.trouble else min(taken.rejected, batch.size)
        metrics.SPANS_EXPORTED.inc(batch.size - rejected)
        if rejected:
            metrics.SPANS_DROPPED.labels("refused").inc(rejected)
        if taken.trouble and taken.trouble != self._recorder.trouble:
            _log.warning("spans are refused, and dropped: %s", taken.trouble)
        elif self._recorder.trouble and not taken.trouble:
            _log.info("spans are taken again")
        self._recorder.trouble, self._pause = taken.trouble, _FIRST_PAUSE
