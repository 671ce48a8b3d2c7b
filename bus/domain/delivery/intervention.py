"""Deliveries that a person ended, set aside so that their keys continue, or discarded: the reason says who, and why."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.localized_text import N_

SET_ASIDE: Final = "set aside"
DISCARDED: Final = "discarded"
BY_A_PERSON: Final = N_("set aside by a person")
"""Common text by which all deliveries that people have set aside are grouped."""
_REASON: Final = re.compile(rf"({SET_ASIDE}|{DISCARDED}) by (.+?)(?:: (.+))?", re.DOTALL)


class Intervention(NamedTuple):
    """Action of a person, ``SET_ASIDE`` or ``DISCARDED``, with their name and reason; empty where they gave none."""

    what: str
    by: str
    why: str

    def __str__(self) -> str:
        """Return the reason of the delivery."""
        return f"{self.what} by {self.by}: {self.why}" if self.why else f"{self.what} by {self.by}"

    @classmethod
    def parse(cls, reason: str) -> Intervention | None:
        """Undo ``str``; None for any other reason."""
        found = _REASON.fullmatch(reason)
        return cls(found[1], found[2], found[3] or "") if found is not None else None
