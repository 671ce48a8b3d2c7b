"""The faults themselves: ``seeded.toml``, and how one is put into a file's text."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

FILE: Final = Path(__file__).with_name("seeded.toml")

Area = Literal["spool", "states", "stores", "transports", "rights"]


class DoesNotApply(ValueError):
    """The text that a fault replaces is not in the file exactly once."""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault.

    Attributes
    ----------
    promise
        What the bus promises and does not keep with the fault, in one sentence.
    file
        Where it is, from the root of the tree.
    old, new
        The text that is there exactly once, and the text that takes its place.
    tests
        Where it should be caught, the nearest first, at the lowest layer that can.
    wide
        Where it is looked for last, of tests that take long.
    """

    name: str
    area: Area
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    wide: tuple[str, ...] = ()

    def mutated(self, text: str) -> str:
        """Return a file's text with the fault in it; raises ``DoesNotApply``."""
        if (times := text.count(self.old)) != 1:
            raise DoesNotApply(f"{self.file} has the text of {self.name} {times} times")
        return text.replace(self.old, self.new)

    def apply(self, tree: Path) -> None:
        """Put the fault into a tree; raises ``DoesNotApply``, also where there is no such file."""
        path = tree / self.file
        if not path.is_file():
            raise DoesNotApply(f"there is no {self.file}")
        path.write_text(self.mutated(path.read_text("utf-8")), "utf-8")


class _Seeded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mutant: tuple[Mutant, ...]


def load() -> tuple[Mutant, ...]:
    """Return all faults, in the order of the file."""
    return msgspec.toml.decode(FILE.read_bytes(), type=_Seeded).mutant
