"""``bus up`` with a planted bug: ``python -m tests.harness.planted BUG up ...``. The kill proof must catch it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bus.cli import main
from bus.cluster.concurrency_slots import SharedSlots
from bus.domain.delivery.delivery import Compensation, Outcome
from bus.ports.concurrency_slots import OwnSlots
from bus.ports.spool import tell
from bus.spool import AsyncSpool
from bus.stores.sqlite import writing
from dispatcher.outcomes import OutcomeLog
from dispatcher.worker import SubscriptionWorker

# What a busy disk or subscriber might take; without it the window between the ack and what it promises is hard to hit.
SLOW_DISK = 0.1


def ack_before_fsync() -> None:
    """The spool answers before the record is on disk."""
    append_with = AsyncSpool.append_with

    def hasty(self: AsyncSpool, records: Sequence[Any], waiter: Any, **how: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(tell, waiter, [0] * len(records))
        loop.call_later(SLOW_DISK, lambda: append_with(self, records, loop.create_future(), **how))

    AsyncSpool.append_with = hasty  # type: ignore[method-assign]


def ack_before_outcome() -> None:
    """The dispatcher acks the transport before the POST has an outcome that is on disk."""
    start = SubscriptionWorker._start

    def hasty(self: SubscriptionWorker, group: asyncio.TaskGroup, entry: Any) -> None:
        async def late() -> None:
            await asyncio.sleep(SLOW_DISK)
            start(self, group, entry)

        if entry.incoming is None:
            start(self, group, entry)
        else:
            self._consumer.ack([entry.incoming])
            group.create_task(late())

    SubscriptionWorker._start = hasty  # type: ignore[method-assign]


def ack_before_commit() -> None:
    """The dispatcher acks the transport when an outcome is written, before that is on disk."""
    write = OutcomeLog._write

    def hasty(self: OutcomeLog) -> None:
        batch, self._pending = self._pending, []
        self._is_scheduled = False
        if batch:
            self._writing += 1
            self.stored(batch)
            self._pending = [*batch, *self._pending]
            asyncio.get_running_loop().call_later(SLOW_DISK, write, self)

    OutcomeLog._write = hasty  # type: ignore[method-assign]


def permits_of_two() -> None:
    """Each process takes all permits of a subscription for its own."""

    def greedy(*_: object) -> OwnSlots:
        return OwnSlots()

    SharedSlots.join = greedy  # type: ignore[method-assign, assignment]


def no_compensation_row() -> None:
    """A failed delivery leaves no row behind that would have it tried again."""

    def forgetful(_: Outcome) -> Compensation | None:
        return None

    writing.compensation_of = forgetful


BUGS: dict[str, Callable[[], None]] = {
    "ack-before-commit": ack_before_commit,
    "ack-before-fsync": ack_before_fsync,
    "ack-before-outcome": ack_before_outcome,
    "no-compensation-row": no_compensation_row,
    "permits-of-two": permits_of_two,
}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
