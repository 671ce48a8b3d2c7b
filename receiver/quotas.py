"""Refuses messages over the rate or share of a destination, or over the rate of a key, and no others."""

from __future__ import annotations

from typing import Final

from bus.domain.delivery.quota import SpoolCapacity
from bus.domain.delivery.rate import TokenBucket
from bus.domain.destination import Destination
from bus.domain.health.vitals import USED_KEY_RATE, USED_RATE, USED_SHARE
from bus.errors import QuotaUsedUp
from bus.ports.clock import Clock
from bus.security.principals import Principal
from receiver.placement import Place
from receiver.throttled_sources import TurnedAway

_LOOK_AGAIN: Final = 5.0
_MOST: Final = 10_000


class Quotas:
    """Decides whether a message is within rates and share; what is refused is counted in ``TurnedAway``."""

    def __init__(self, turned_away: TurnedAway, clock: Clock) -> None:
        self._turned_away = turned_away
        self._clock = clock
        self._destinations = _Buckets()
        self._keys = _Buckets()

    def take(
        self, destination: Destination, principal: Principal, size: int, place: Place, rooms: dict[str, SpoolCapacity]
    ) -> None:
        """Admit a record of ``size`` bytes; ``rooms`` is what earlier records of the same call leave, by destination.

        Raises
        ------
        QuotaUsedUp
            A rate is used up, or what waits for the destination fills its share of the spool; nothing was counted.
        """
        code, now = destination.code, self._clock.monotonic()
        of_key = self._keys.of(principal.id, principal.rate, principal.burst)
        if of_key is not None and (wait := of_key.wait(now)) > 0:
            self._turned_away.note(code, USED_KEY_RATE, principal.name)
            raise _over(principal.name, principal.rate, "key", wait)
        of_destination = self._destinations.of(code, destination.rate, destination.burst)
        if of_destination is not None and (wait := of_destination.wait(now)) > 0:
            self._turned_away.note(code, USED_RATE, code)
            raise _over(f"destination {code!r}", destination.rate, "destination", wait)
        self._take_room(destination, size, place, rooms)
        for bucket in (of_key, of_destination):
            if bucket is not None:
                bucket.take(1)

    def _take_room(self, destination: Destination, size: int, place: Place, rooms: dict[str, SpoolCapacity]) -> None:
        code = destination.code
        room = rooms.get(code) or place.spool.room(code)
        if not room.takes(destination.spool_share, size):
            self._turned_away.note(code, USED_SHARE, code)
            raise QuotaUsedUp(
                f"what waits for destination {code!r} fills its share of the receiver's spool "
                f"({destination.spool_share:.0%}); this message is not accepted, and no other destination is refused",
                hint="send it again later; see what it waits for (a pause, the store, a broker), or raise spool_share",
                wait=_LOOK_AGAIN,
            )
        rooms[code] = room.after(size)


class _Buckets:
    """A bucket for each name that has a rate; beyond ``_MOST`` the oldest is dropped."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def of(self, name: str, rate: float | None, burst: int | None) -> TokenBucket | None:
        """Return the bucket of a name with its present rate; None when it has no rate."""
        if rate is None:
            if self._buckets:
                self._buckets.pop(name, None)
            return None
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(rate, burst)
            if len(self._buckets) > _MOST:
                del self._buckets[next(iter(self._buckets))]
        bucket.change(rate, burst)
        return bucket


def _over(whose: str, rate: float | None, field: str, wait: float) -> QuotaUsedUp:
    return QuotaUsedUp(
        f"{whose} may send {rate:g} messages a second; this one is not accepted; other producers are not affected"
        if field == "key"
        else f"{whose} takes {rate:g} messages a second; this one is not accepted, and no other destination is refused",
        hint="send it again after Retry-After",
        field=field,
        wait=wait,
    )
