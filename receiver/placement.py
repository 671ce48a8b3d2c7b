"""The queue of an accepted message: the receiver's spool, to be published, or the direct queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.domain.destination import Destination, Ordering
from bus.domain.lanes import accepted_lane
from bus.ports.spool import Spool
from bus.ports.transport import AcceptingTransport
from bus.transports.router import TransportRouter

PUBLISH: Final = "publish"
"""The consumer of the receiver's spool that publishes what is there."""


class Place(NamedTuple):
    """A spool; ``accepting`` is the transport whose queue it is, None for the receiver's own."""

    spool: Spool
    accepting: AcceptingTransport | None

    def lane(self, destination: str) -> str:
        """Return the stream of a destination's messages there."""
        return destination if self.accepting is None else accepted_lane(destination)


class Candidate(NamedTuple):
    """A message that is about to be accepted."""

    destination: Destination
    size: int
    deliver_at: int


class Placement:
    """Saves the way through the receiver's spool where the transport's queue is in this process.

    What has to wait first (for its time, or while its destination is paused) goes that way, and so does what comes
    while others of its destination still wait there, so that it does not overtake them. Where an order is kept, a pause
    or a full queue sends nothing that way: it would overtake what the queue has, or be overtaken.
    """

    def __init__(self, spool: Spool, router: TransportRouter) -> None:
        self._spool = spool
        self._router = router

    def of(self, candidates: Iterable[Candidate]) -> Place:
        """Return the one place for messages that are stored by one append."""
        found: AcceptingTransport | None = None
        queue: Spool | None = None
        sizes: dict[str, int] = {}
        for candidate in candidates:
            code = candidate.destination.code
            sizes[code] = sizes.get(code, 0) + candidate.size
            found = self._router.accepting(candidate.destination)
            is_held = candidate.destination.paused and candidate.destination.ordering is Ordering.NONE
            if found is None or candidate.deliver_at or is_held:
                return self._own
            if self._spool.pending(PUBLISH, code):
                return self._own
            queue = found.queue_of(candidate.destination, sizes[code])
            if queue is None:
                return self._own
        return self._own if queue is None else Place(queue, found)

    @property
    def _own(self) -> Place:
        return Place(self._spool, None)
