"""Files as a sink: the disk is waited for in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bus.error_texts import error_text
from bus.errors import EventsUnavailable
from bus.events.files import EventFiles, Limits
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.events import SealedBlock
from bus.telemetry import metrics

_CLOSE_WITHIN = 2.0


class FileSink:
    """An ``EventSink`` of files in a directory. What was taken survives the process, and not a power cut.

    Parameters
    ----------
    emitter
        Begins the files' names.
    """

    def __init__(self, directory: Path, emitter: str, limits: Limits, clock: Clock) -> None:
        self._files = EventFiles(
            directory,
            emitter,
            limits,
            clock.monotonic,
            removed=metrics.EVENTS_LOST.labels("limit").inc,
            torn=metrics.EVENTS_LOST.labels("torn").inc,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bus-events")

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Append blocks, see ``bus.ports.events.EventSink``."""
        await self._run(lambda: self._files.write(blocks))

    async def tend(self) -> None:
        """Rotate, and remove the oldest files beyond the limit."""
        if self._files.is_to_be_tended:
            await self._run(self._files.tend)

    async def close(self) -> None:
        """Close the file; a disk that hangs is left alone after a moment, and the next process closes it then."""
        closing = asyncio.ensure_future(self._run(self._files.rotate))
        await asyncio.wait({closing}, timeout=_CLOSE_WITHIN)
        closing.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as error:
            raise EventsUnavailable(
                localized("the disk failed: {error}; no message is affected", error=error_text(error))
            ) from error
