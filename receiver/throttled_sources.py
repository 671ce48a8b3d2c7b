"""Sources whose messages are throttled by their share or rate, for status and alarms."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.health.vitals import TurnedAwayFigures
from bus.ports.clock import Clock
from bus.telemetry import labels, metrics

_MOST: Final = 100
_TOLD_FOR: Final = 60_000


class TurnedAway:
    """Counts refused messages by destination or key and by reason, for a minute after the last one of each.

    Beyond ``_MOST`` the one that was refused longest ago is forgotten.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[tuple[str, str], tuple[TurnedAwayFigures, int]] = {}

    def note(self, destination: str, why: str, whose: str) -> None:
        """Count one message that was refused; ``whose`` is the destination or key whose share or rate is used up."""
        metrics.TURNED_AWAY.labels(*labels.DESTINATIONS.of(destination), why).inc()
        now, key = self._clock.now(), (whose, why)
        known, last = self._found.pop(key, (TurnedAwayFigures(whose, why, 0, now), now))
        if last < now - _TOLD_FOR:
            known = TurnedAwayFigures(whose, why, 0, now)
        figures = msgspec.structs.replace(known, count=known.count + 1, last=now, destination=destination)
        self._found[key] = (figures, now)
        if len(self._found) > _MOST:
            del self._found[next(iter(self._found))]

    def told(self) -> list[TurnedAwayFigures]:
        """Return the present refusals."""
        oldest = self._clock.now() - _TOLD_FOR
        self._found = {key: found for key, found in self._found.items() if found[1] >= oldest}
        return [figures for figures, _ in self._found.values()]
