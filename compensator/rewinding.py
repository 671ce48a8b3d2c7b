"""Due work with times from a clock that was ahead: it is set back, to wait no longer than intended."""

from __future__ import annotations

import logging
from typing import Final

from bus.cluster.members import Members
from bus.domain.times import SKEW
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.telemetry.outage import Outage
from compensator.watch import watch

_log = logging.getLogger(__name__)
_INTERVAL: Final = 5.0
_ROLE: Final = "compensator"


class ClockRewind:
    """Looks every few seconds for rows that were written, or leased, at a time in the future.

    The clock was ahead then, and was put back; without this the rows would wait until it gets there again. Rows that
    may be from another live compensator whose clock is ahead are left alone: they are right by that clock.
    """

    def __init__(self, store: Store, members: Members, clock: Clock) -> None:
        self._store = store
        self._members = members
        self._clock = clock

    async def run(self) -> None:
        """Look until cancelled."""
        await watch(
            self.step, self._clock, _INTERVAL, Outage(_log, "due times are not looked through without the store")
        )

    async def step(self) -> int:
        """Make such rows due after their own waits from now on; return how many there were."""
        count = await self._store.rewind(self._clock.now(), SKEW + self._members.lead(_ROLE))
        if count:
            _log.warning(
                "%d deliveries were due by a clock that is ahead, or was: they are due after their own waits",
                count,
            )
        return count
