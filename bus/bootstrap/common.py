"""Resources that the processes of one port share."""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from bus.bootstrap.identity import name_kept
from bus.bootstrap.roles import ROLES
from bus.cluster.concurrency_slots import SharedSlots
from bus.errors import StoreError
from bus.ports.claims import Claims
from bus.ports.clock import Clock
from bus.ports.concurrency_slots import OWN_SLOTS, SlotPool

_log = logging.getLogger(__name__)


class SharedResources(NamedTuple):
    """What the processes of one port have together, as the process with this number knows it.

    Attributes
    ----------
    directory
        The data directory of the first of them.
    slots
        The files whose locks are slots; none under a supervisor of an older version.
    wakeups
        By number, the socket that wakes each process for a slot.
    """

    directory: Path
    number: int
    slots: Sequence[int]
    wakeups: Sequence[socket.socket]

    @property
    def group(self) -> str:
        """The name by which they share slots with the dispatchers elsewhere, that of the first; empty for none."""
        return name_kept(self.directory, ROLES) if self.slots else ""

    def claims(self, owner: str, former: Collection[str], clock: Clock, opened: AsyncExitStack) -> Claims | None:
        """Open what they accepted lately; None when that is not known."""
        from bus.stores.sqlite.claims import SharedClaims  # noqa: PLC0415 - of several processes only

        try:
            claims = SharedClaims(self.directory, owner, clock.now(), former)
        except StoreError as error:
            _log.warning("what the other processes of this port accept is not known here: %s", error)
            return None
        opened.callback(claims.close)
        return claims

    def pool(self, clock: Clock, opened: AsyncExitStack) -> SlotPool:
        """Open the slots that they share."""
        if not self.slots:
            return OWN_SLOTS
        slots = SharedSlots(self.slots, self.number, self.wakeups, clock)
        opened.callback(slots.close)
        slots.start()
        return slots
