"""Recently recorded attempts, so that a delivery which has moved on is not attempted again."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from bus.domain.delivery.delivery import Outcome
from bus.ports.clock import Clock

MANY: Final = 25_000
# What is older a transport's copy is asked of the store for anyway (``stuck_after``, as it is by default).
LONG: Final = 300.0
# The search for stuck deliveries looks behind by less, also at many thousands a second.
SHORT: Final = 10.0
_ATTEMPTS_BITS: Final = 32
_Lane = tuple[str, str]
_Stages = defaultdict[_Lane, dict[str, int]]


class RecentOutcomes:
    """The latest stage of each delivery that was recorded in the last minutes.

    There are tens of thousands, in two generations: the older one is forgotten as soon as the younger one lasts for
    ``LONG`` seconds, or has ``MANY`` and lasts for ``SHORT``.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._older: _Stages = defaultdict(dict)
        self._younger: _Stages = defaultdict(dict)
        self._count = 0
        self._since = clock.monotonic()

    def add(self, outcome: Outcome) -> None:
        """Remember the stage that an outcome has brought its delivery to."""
        age = self._clock.monotonic() - self._since
        if age >= LONG or (self._count >= MANY and age >= SHORT):
            self._older, self._younger = self._younger, defaultdict(dict)
            self._count, self._since = 0, self._since + age
        lane = self._younger[outcome.destination, outcome.subscription]
        lane[outcome.message_id] = _stage(outcome.generation, outcome.attempts)
        self._count += 1

    def has_later(self, destination: str, subscription: str, message_id: str, generation: int, attempts: int) -> bool:
        """Whether an outcome of a later attempt, or of a later generation, is among them."""
        stage, lane = _stage(generation, attempts), (destination, subscription)
        for stages in (self._younger, self._older):
            if lane in stages and (known := stages[lane].get(message_id)) is not None:
                return known > stage
        return False


def _stage(generation: int, attempts: int) -> int:
    """Return one number for both, since there are many, and those of first attempts are shared."""
    return generation << _ATTEMPTS_BITS | attempts
