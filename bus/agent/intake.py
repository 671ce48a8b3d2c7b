"""Taking messages: onto this node's disk, or straight to the receiver where that disk refuses them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from bus.agent.record import prepared_of
from bus.client import Bus
from bus.client.network.awaited import sent_straight
from bus.client.options import PreparedMessage
from bus.client.spooling.writer import Writer
from bus.errors import BusError, SpoolClosed, SpoolError
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage, drafts_of, results_of
from bus.ports.spool import Waiter
from bus.telemetry import metrics
from bus.telemetry.source_counters import SourceCounters

_log = logging.getLogger(__name__)
MOST_HELD: Final = 128 * 2**20
"""Bytes of messages that may wait for the disk; beyond that it stands still, or cannot keep up."""
Refusals = Sequence[SpoolError | None]
"""Of messages that were given together: why each was taken by neither disk nor receiver; empty when all were taken."""
_NONE: Final[Refusals] = ()


class Intake:
    """Stores what requests bring, all that waits in one transaction, so that they share an fsync; for one loop.

    Parameters
    ----------
    source
        Of messages that name none.
    group
        Runs what waits for the network.
    """

    def __init__(self, bus: Bus, source: str, max_bytes: int, group: asyncio.TaskGroup) -> None:
        self._bus = bus
        self._writer = Writer(bus)
        self._source = source
        self._group = group
        self._held = 0
        self._taken = SourceCounters(metrics.AGENT_TAKEN)
        self.max_bytes = max_bytes

    def prepare(self, draft: Draft) -> PreparedMessage:
        """Check a draft and make its record; stores nothing. Raises ``InvalidMessage`` when it is refused."""
        return prepared_of(draft, self._source, self._bus.now(), self.max_bytes)

    def store(self, prepared: Sequence[PreparedMessage], waiter: Waiter[Refusals]) -> None:
        """Have messages stored, and tell the waiter in a later turn once what can be durable is.

        Raises
        ------
        SpoolError
            Too much waits for the disk; nothing of this call is stored, and the waiter is not told.
        """
        size = sum(len(one.record.payload) for one in prepared)
        if self._held and self._held + size > MOST_HELD:
            raise SpoolError(
                "messages come faster than the agent's disk takes them; this one is not stored", hint="send it again"
            )
        self._held += size
        self._writer.store_with(prepared, _OnItsWay(self, prepared, size, waiter))

    def finish(self, size: int, prepared: Sequence[PreparedMessage], refusals: Refusals) -> None:
        """Note what became of messages."""
        self._held -= size
        for one, refusal in zip(prepared, refusals or (None,) * len(prepared), strict=True):
            if refusal is None:
                self._taken.count(one.destination, one.source)

    def go_straight(self, way: _OnItsWay, refusal: SpoolError) -> None:
        """Have the receiver take at once what the disk refused."""
        self._group.create_task(self._go_straight(way, refusal))

    async def _go_straight(self, way: _OnItsWay, refusal: SpoolError) -> None:
        try:
            refusals = await sent_straight(self._bus.straight, way.prepared, refusal)
        except Exception as error:  # noqa: BLE001 - it is the caller's, who waits for an answer
            _log.exception("the way straight to the receiver failed")
            way.end(error)
        else:
            way.end(refusals)

    def close(self) -> None:
        """Store what was given, then stop; blocks."""
        self._writer.close()


class _OnItsWay:
    """Messages that wait for the disk, and then perhaps for the receiver."""

    __slots__ = ("_intake", "_size", "_waiter", "prepared")

    def __init__(
        self, intake: Intake, prepared: Sequence[PreparedMessage], size: int, waiter: Waiter[Refusals]
    ) -> None:
        self.prepared = prepared
        self._intake = intake
        self._size = size
        self._waiter = waiter

    def done(self) -> bool:
        return False

    def set_result(self, _: None, /) -> None:
        self.end(_NONE)

    def set_exception(self, error: Exception, /) -> None:
        if isinstance(error, SpoolError) and not isinstance(error, SpoolClosed):
            self._intake.go_straight(self, error)
        else:
            self.end(error)

    def end(self, found: Refusals | Exception) -> None:
        """Tell who waits."""
        if isinstance(found, Exception):
            self._intake.finish(self._size, (), _NONE)
        else:
            self._intake.finish(self._size, self.prepared, found)
        if self._waiter.done():
            return
        if isinstance(found, Exception):
            self._waiter.set_exception(found)
        else:
            self._waiter.set_result(found)


class Batch:
    """The lines of one request: which are to be stored, and the answer to all of them.

    Raises
    ------
    MessageTooLarge
        There are too many.
    """

    def __init__(self, intake: Intake, body: bytes) -> None:
        self._drafts = drafts_of(body)
        self._found = [_prepared(intake, draft) for draft in self._drafts]
        self.prepared = [found for found in self._found if isinstance(found, PreparedMessage)]

    def content(self, refusals: Refusals) -> bytes:
        """Return the body of the answer."""
        left = iter(refusals or (None,) * len(self.prepared))
        answers = [
            (next(left) or AcceptedMessage(found.id, duplicate=False)) if isinstance(found, PreparedMessage) else found
            for found in self._found
        ]
        return results_of(self._drafts, answers)


def _prepared(intake: Intake, draft: Draft | BusError) -> PreparedMessage | BusError:
    if isinstance(draft, BusError):
        return draft
    try:
        return intake.prepare(draft)
    except BusError as error:
        return error
