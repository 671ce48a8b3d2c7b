"""The mark of a message that a replay sent again: the replay's name, and the message that it is a copy of."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from bus.domain.identity import parse_id

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


class Replay(NamedTuple):
    """The name of the replay, and the id of the message ``of`` which this one is a copy."""

    name: str
    of: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NAME ID``, as the header ``Bus-Replay`` has it.

        Raises
        ------
        ValueError
            The name is none that a replay may have, or the id is not a UUID of version 7.
        """
        name, _, of = text.partition(" ")
        return cls(check_name(name), parse_id(of))

    def __str__(self) -> str:
        """Undo ``parse``."""
        return f"{self.name} {self.of}"


def check_name(name: str) -> str:
    """Return a replay's name; raises ``ValueError`` when it cannot be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not 1-64 of a-z A-Z 0-9 . _ - (not starting with - or .)")
    return name
