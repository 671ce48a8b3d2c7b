"""Releases the leases of a spool directory, each once no message under it is queued."""

from __future__ import annotations

import logging
from typing import Final

from bus.client.network.backoff import Backoff
from bus.client.network.receivers import Receivers
from bus.client.sending.sender import Sender, waiting_lanes
from bus.client.spooling.lanes import lane_of
from bus.client.spooling.marker import Marker
from bus.errors import SpoolFailed

_log = logging.getLogger("bus.client")
_NOT_THERE: Final = (404, 422)
"""The destination does not exist, or keeps no strict order any more, so that it has no lease."""


class LeaseRelease:
    """Releases the leases of one directory, and retries after a while; for the thread that sends its records."""

    def __init__(self, marker: Marker, sender: Sender, backoff: Backoff) -> None:
        self.marker = marker
        self._sender = sender
        self._backoff = backoff

    def step(self, receivers: Receivers, now: float) -> bool:
        """Release the leases that have ended by now (monotonic seconds); return whether there were any."""
        ending = self.marker.ending
        if not ending or now < self._backoff.due:
            return False
        waiting = waiting_lanes(self._sender.stats())
        empty = [code for code in ending if lane_of(code, alone=True) not in waiting]
        # What was acked must not come again after a crash: its epoch will be refused.
        self._sender.rest()
        done = [self._release(code, receivers) for code in empty]
        if all(done):
            self._backoff.succeed()
        else:
            self._backoff.fail(now)
        return any(done)

    def due(self, now: float) -> float | None:
        """Return the monotonic time of the next try after one that failed; None when none is waited for."""
        return self._backoff.due if self.marker.ending and self._backoff.due > now else None

    def _release(self, code: str, receivers: Receivers) -> bool:
        try:
            return self.marker.release(code, lambda code, owner: release(receivers, code, owner))
        except SpoolFailed as error:
            _log.warning("%s", error)
            return False


def release(receivers: Receivers, code: str, owner: str) -> bool:
    """Release a lease; return whether its owner has it no more for sure."""
    answer = receivers.ask(code, "DELETE", f"/v1/producers/{code}/{owner}")
    is_released = answer.is_done or answer.status in _NOT_THERE
    if not is_released:
        _log.info("the lease of %s is released later: %s", code, answer.reason)
    return is_released
