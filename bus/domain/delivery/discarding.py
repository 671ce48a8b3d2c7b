"""Deliveries that a person has dropped, so that nobody gets them: the reason of each says who did, and why."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_DISCARDED: Final = re.compile(r"discarded by (.+?)(?:: (.+))?", re.DOTALL)


class Discarded(NamedTuple):
    """Who dropped a delivery, and why in their words; empty where they said nothing."""

    by: str
    why: str

    def __str__(self) -> str:
        """Return the reason of the delivery."""
        return f"discarded by {self.by}: {self.why}" if self.why else f"discarded by {self.by}"

    @classmethod
    def parse(cls, reason: str) -> Discarded | None:
        """Undo ``str``; None for any other reason."""
        found = _DISCARDED.fullmatch(reason)
        return cls(found[1], found[2] or "") if found is not None else None
