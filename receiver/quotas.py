"""Refuses what a destination has too much of, to that destination alone."""

from __future__ import annotations

from typing import Final

from bus.domain.destination import Destination
from bus.domain.quota import Room
from bus.domain.vitals import USED_SHARE
from bus.errors import QuotaUsedUp
from bus.ports.spool import Spool
from receiver.turned_away import TurnedAway

_LOOK_AGAIN: Final = 5.0


class Quotas:
    """What may still be accepted; whoever is refused is counted, and told to who looks at the bus."""

    def __init__(self, spool: Spool, turned_away: TurnedAway) -> None:
        self._spool = spool
        self._turned_away = turned_away

    def take(self, destination: Destination, size: int, rooms: dict[str, Room]) -> None:
        """Let a record of ``size`` bytes of a destination pass; ``rooms`` has what a call has let pass before it.

        Raises
        ------
        QuotaUsedUp
            What waits for the destination fills its share of the spool.
        """
        room = rooms.get(destination.code) or self._spool.room(destination.code)
        if not room.takes(destination.spool_share, size):
            self._turned_away.note(destination.code, USED_SHARE)
            raise QuotaUsedUp(
                f"what waits for destination {destination.code!r} fills its share of the receiver's spool "
                f"({destination.spool_share:.0%}); this message is not accepted, and no other destination is refused",
                hint="send it again later; see what it waits for (a pause, the store, a broker), or raise spool_share",
                wait=_LOOK_AGAIN,
            )
        rooms[destination.code] = room.after(size)
