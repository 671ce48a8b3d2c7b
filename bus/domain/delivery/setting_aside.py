"""Deliveries that a person has set aside, so that their keys go on: the reason of each says who did, and why."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.sentences import N_

BY_A_PERSON: Final = N_("set aside by a person")
"""What those that anybody has set aside have in common."""
_SET_ASIDE: Final = re.compile(r"set aside by (.+?)(?:: (.+))?", re.DOTALL)


class SetAside(NamedTuple):
    """Who set a delivery aside, and why in their words; empty where they said nothing."""

    by: str
    why: str

    def __str__(self) -> str:
        """Return the reason of the delivery."""
        return f"set aside by {self.by}: {self.why}" if self.why else f"set aside by {self.by}"

    @classmethod
    def parse(cls, reason: str) -> SetAside | None:
        """Undo ``str``; None for any other reason."""
        found = _SET_ASIDE.fullmatch(reason)
        return cls(found[1], found[2] or "") if found is not None else None
