"""Events that wait in memory, and the blocks that are made of them."""

from __future__ import annotations

from collections import Counter, deque
from operator import attrgetter
from typing import Final

from bus.domain.identity import new_id
from bus.domain.tracing.events import BLOCK_BYTES, BLOCK_EVENTS, VERSION, Block, TraceEvent, encode_block
from bus.ports.events import SealedBlock

MOST_EVENTS: Final = 50_000
_stage: Final = attrgetter("stage")


class EventBuffer:
    """The events that one emitter has not passed on yet; any thread may add some, one thread takes them.

    Parameters
    ----------
    role, node
        What the process is, and where.
    started_at
        When it began (ms); the emitter's id carries this time.
    most
        Events that wait at most; what comes beyond is lost.
    """

    def __init__(self, role: str, node: str, started_at: int, *, most: int = MOST_EVENTS) -> None:
        self.emitter = new_id(started_at)
        self.lost = 0
        self._role = role
        self._node = node
        self._most = most
        self._seq = 0
        self._waiting: deque[TraceEvent] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: TraceEvent) -> int:
        """Have an event wait, and return how many do; 0, and counted as lost, when there is no room."""
        waiting = len(self._waiting)
        if waiting >= self._most:
            self.lost += 1
            return 0
        self._waiting.append(event)
        return waiting + 1

    def close(self, now: int) -> SealedBlock | None:
        """Make the next block of what waits, at a time in milliseconds since the epoch; None when nothing does."""
        size = min(len(self._waiting), BLOCK_EVENTS)
        if not size:
            return None
        events = [self._waiting.popleft() for _ in range(size)]
        try:
            line = self._encode(events, now)
            while len(line) > BLOCK_BYTES and len(events) > 1:
                middle = len(events) // 2
                self._waiting.extendleft(reversed(events[middle:]))
                events = events[:middle]
                line = self._encode(events, now)
        except Exception:
            self.lost += len(events)
            raise
        self._seq += 1
        return SealedBlock(self.emitter, line, stages_of(events))

    def sign(self, now: int, *, last: bool = False) -> SealedBlock:
        """Make the next block without events: a sign of life, or the ``last`` block of the emitter."""
        line = self._encode([], now, last=last)
        self._seq += 1
        return SealedBlock(self.emitter, line, Counter())

    def drop(self) -> int:
        """Give up what waits, as lost; return how many events."""
        count = len(self._waiting)
        self._waiting.clear()
        self.lost += count
        return count

    def _encode(self, events: list[TraceEvent], now: int, *, last: bool = False) -> bytes:
        # Imported by the thread that closes blocks: a producer's first send is not to wait for it.
        from bus.domain.tracing.audit_ledger import ledger_of  # noqa: PLC0415

        return encode_block(
            Block(
                v=VERSION,
                emitter=self.emitter,
                role=self._role,
                node=self._node,
                seq=self._seq + 1,
                at=now,
                lost=self.lost,
                events=events,
                ledger=ledger_of(events),
                last=last,
            )
        )


def stages_of(events: list[TraceEvent]) -> Counter[str]:
    """Count events by stage."""
    return Counter(map(_stage, events))
