"""Due work that was set by a clock that was ahead: it waits no longer than it was to wait."""

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


class Rewinding:
    """Looks every few seconds for rows that were set, or leased, at a time that is still to come.

    The clock was ahead then, and was put back. Without this they would wait until that time comes again. What another
    compensator sets whose clock is ahead is right by that clock, and is left to it.
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
        """Keep the waits of what was set by a clock that was ahead; return how many rows there were."""
        count = await self._store.rewind(self._clock.now(), SKEW + self._members.lead(_ROLE))
        if count:
            _log.warning(
                "%d deliveries were due by a clock that is ahead, or was: they are due after their own waits",
                count,
            )
        return count
