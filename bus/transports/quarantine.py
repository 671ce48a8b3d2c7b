"""Records that are not ours, kept on this process's disk until a person has looked at them."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from bus.errors import SpoolError
from bus.ports.clock import Clock
from bus.ports.quarantine import ForeignRecord
from bus.ports.spool import NewRecord, Spool
from bus.telemetry import metrics

_log = logging.getLogger(__name__)
OPERATOR: Final = "operator"
"""The consumer for whom they wait."""


class SpoolQuarantine:
    """A separate spool with a stream for each transport; ``bus spool ls`` and ``bus spool show`` read it."""

    def __init__(self, spool: Spool, clock: Clock) -> None:
        self._spool = spool
        self._clock = clock

    async def keep(self, foreign: ForeignRecord) -> None:
        """Append it; durable when it returns. Raises ``SpoolError`` when the disk does not take it."""
        lane = str(foreign.transport)  # adapters name themselves by an enumeration, and a spool takes plain texts alone
        await self._spool.append([NewRecord(lane, msgspec.msgpack.encode(foreign), self._clock.now())])
        metrics.QUARANTINED.labels(foreign.transport).inc()
        _log.error("set aside %s: %s; the others behind it go on", foreign.place, foreign.reason)


class NoQuarantine:
    """For processes that only publish."""

    async def keep(self, foreign: ForeignRecord) -> None:
        """Raise: nothing comes in here."""
        raise SpoolError(f"{foreign.place} was read by a process that has nowhere to keep it")
