"""How long a producer, or a process that has a role, may give no sign of life before another one takes over."""

from __future__ import annotations

from typing import Final

from bus.errors import InvalidMessage
from bus.sentences import sentence

LEAST: Final = 2.0
MOST: Final = 3_600.0
OF_ROLE: Final = 6.0
"""Of a process of the bus that sends to a strict order, or reads it, unless it is set otherwise."""


def check_takeover(seconds: float) -> float:
    """Return a time in seconds that a producer may ask for; raises ``InvalidMessage`` for another."""
    if not LEAST <= seconds <= MOST:  # NaN as well
        raise InvalidMessage(
            sentence("takeover_after is {least} to {most} seconds, or not set", least=f"{LEAST:g}", most=f"{MOST:g}"),
            field="takeover_after",
        )
    return float(seconds)
