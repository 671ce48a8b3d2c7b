"""From a process's stages to its sink: gathering costs a message nothing, and a sink that fails costs only events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from bus.async_helpers import first_of
from bus.domain.tracing.events import BLOCK_EVENTS, TraceEvent
from bus.errors import EventsUnavailable
from bus.events.gathering import EventBuffer
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.ports.events import EventSink, SealedBlock
from bus.telemetry import metrics
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
_CLOSED_EVERY: Final = 1.0
_TENDED_EVERY: Final = 1.0
_SIGNED_EVERY: Final = 180.0
_AFTER_FAILURE: Final = 1.0
_FORWARDS: Final = 8


class Emitter:
    """Gathers events and passes them on in blocks, every second or thousand.

    A block without events is the first, comes every three minutes in which nothing happens, and is the last: a process
    that was killed is distinguished from one that is idle or ended in order.

    One write at a time is under way, however long it takes; meanwhile events gather up to a bound, and those beyond
    are lost. A block that was refused is written again until it is taken.

    Parameters
    ----------
    patience
        Seconds after which a write counts as failed, though it goes on.
    """

    is_on = True

    def __init__(self, sink: EventSink, gathering: EventBuffer, clock: Clock, *, patience: float = 10.0) -> None:
        self._sink = sink
        self._gathering = gathering
        self._clock = clock
        self._patience = patience
        self._full = asyncio.Event()
        self._turn = asyncio.Lock()
        self._forwards = 0
        self._tend_at = 0.0
        self._sign_at = 0.0
        self._block: SealedBlock | None = None
        self._writing: asyncio.Future[None] | None = None
        self._under_way: Sequence[SealedBlock] = ()
        self._outage = Outage(_log, "trace events are not written, and lost beyond what memory holds")
        self._trouble: AnyText = ""
        self._lost = metrics.EVENTS_LOST.labels("full")

    @property
    def trouble(self) -> AnyText:
        """Why events are not written now; empty when they are."""
        return self._trouble

    def emit(self, event: TraceEvent) -> None:
        """Take an event, see ``bus.ports.events.Events``."""
        waiting = self._gathering.add(event)
        if waiting == BLOCK_EVENTS:
            self._full.set()
        elif not waiting:
            self._lost.inc()

    async def forward(self, blocks: Sequence[SealedBlock]) -> None:
        """Pass on blocks of others, see ``bus.ports.events.Events``; at most a few calls wait at a time."""
        if self._trouble:
            raise EventsUnavailable(f"trace events are not taken now: {self._trouble}", hint="send them again later")
        if self._forwards >= _FORWARDS:
            raise EventsUnavailable("too many trace events at once", hint="send them again later", status=429)
        self._forwards += 1
        try:
            async with asyncio.timeout(self._patience), self._turn:
                await self._write(blocks)
        except TimeoutError:
            raise self._late() from None
        finally:
            self._forwards -= 1
        _count(blocks)

    async def run(self) -> None:
        """Write until cancelled; ``close`` writes the rest."""
        while True:
            await self._wait_for_events()
            async with self._turn:
                is_well = await self._step()
            if not is_well:
                await self._clock.sleep(_AFTER_FAILURE)

    async def close(self, within: float = 5.0) -> None:
        """Write what is left, as far as that goes in so many seconds, and close the sink."""
        try:
            async with asyncio.timeout(within), self._turn:
                if await self._flush():
                    await self._pass_on(self._gathering.sign(self._clock.now(), last=True))
        except TimeoutError:
            _log.warning("the last trace events were not written within %g s", within)
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing}, timeout=within)
        await self._sink.close()
        left = self._gathering.drop() + (sum(self._block.stages.values()) if self._block is not None else 0)
        if left:
            metrics.EVENTS_LOST.labels("stopped").inc(left)
            _log.warning("%d trace events were lost at the stop; no message was", left)

    async def _wait_for_events(self) -> None:
        """Wait for a second, or until there is a whole block."""
        if len(self._gathering) >= BLOCK_EVENTS:
            return
        self._full.clear()
        await first_of(self._full.wait(), self._clock.sleep(_CLOSED_EVERY))

    async def _step(self) -> bool:
        """Write what waits and do what is due; whether that went well."""
        try:
            if not await self._flush():
                return False
            if self._clock.monotonic() >= self._sign_at and not await self._pass_on(
                self._gathering.sign(self._clock.now())
            ):
                return False
            if self._clock.monotonic() >= self._tend_at:
                if self._writing is not None:  # a write of ``forward`` that was given up waiting for
                    await self._patiently(self._writing)
                self._tend_at = self._clock.monotonic() + _TENDED_EVERY
                self._under_way, self._writing = (), asyncio.ensure_future(self._sink.tend())
                await self._patiently(self._writing)
        except EventsUnavailable:
            return False
        except Exception:  # noqa: BLE001 - whatever it is, messages go on
            _log.exception("trace events are in trouble, messages are not")
            return False
        return True

    async def _flush(self) -> bool:
        """Write what waits now, not what comes meanwhile, which would be small blocks; whether that went well."""
        left = len(self._gathering)
        while self._block is not None or left > 0:
            block = self._block
            if block is None:
                block = self._gathering.close(self._clock.now())
                if block is None:
                    break
                left -= sum(block.stages.values())
            if not await self._pass_on(block):
                return False
        return True

    async def _pass_on(self, block: SealedBlock) -> bool:
        """Write a block, which waits for the next time when it is refused; whether it was taken."""
        self._block = block
        try:
            await self._write([block])
        except EventsUnavailable:
            return False
        _count([block])
        self._block = None
        self._sign_at = self._clock.monotonic() + _SIGNED_EVERY
        return True

    async def _write(self, blocks: Sequence[SealedBlock]) -> None:
        """Have the sink take blocks; a write that hangs is noted as an outage, and waited for.

        Raises
        ------
        EventsUnavailable
            The sink refuses.
        """
        if self._writing is not None and self._under_way != blocks:
            await self._patiently(self._writing)
        if self._writing is None:
            self._under_way = blocks
            self._writing = asyncio.ensure_future(self._sink.write(blocks))
        await self._patiently(self._writing)

    async def _patiently(self, writing: asyncio.Future[None]) -> None:
        """Wait for a write, which goes on when the waiting is given up."""
        done, _ = await asyncio.wait({writing}, timeout=self._patience)
        if not done:
            self._note(self._late())
            await asyncio.wait({writing})
        self._writing = None
        try:
            writing.result()
        except EventsUnavailable as error:
            self._note(error)
            raise
        self._outage.is_over()
        self._trouble = ""

    def _note(self, error: EventsUnavailable) -> None:
        self._outage.goes_on(error)
        self._trouble = error.said

    def _late(self) -> EventsUnavailable:
        return EventsUnavailable(
            localized("what takes trace events did not answer within {seconds} s", seconds=f"{self._patience:g}")
        )


def _count(blocks: Sequence[SealedBlock]) -> None:
    for block in blocks:
        for stage, count in block.stages.items():
            metrics.EVENTS_EMITTED.labels(stage).inc(count)
