"""Bounds the label values of metrics: configuration and producers choose them, and each makes scrapes larger."""

from __future__ import annotations

from typing import Final

OTHER: Final = "(other)"


class Names:
    """The names that have series of their own: the first so many that a process met; the others share one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[tuple[str, ...]] = set()

    def of(self, *name: str) -> tuple[str, ...]:
        """Return the label values to count under: the name itself, or ``OTHER`` for each of its parts."""
        if name not in self._known:
            if len(self._known) >= self._most:
                return (OTHER,) * len(name)
            self._known.add(name)
        return name


DESTINATIONS: Final = Names(1000)
SUBSCRIPTIONS: Final = Names(1000)
