"""A Dockerfile as its stages and instructions, for tests that carry them out or compare them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction: its name in capitals, and the rest of it in one line."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The words of the rest: those of a JSON list, or as a shell splits them."""
        found: list[str] = json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)
        return found


@dataclass
class Stage:
    """From one ``FROM`` to the next: what it begins with, and what is done."""

    name: str
    base: str
    steps: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> Instruction:
        """Return the last instruction of a name."""
        return [step for step in self.steps if step.name == name][-1]

    @property
    def environment(self) -> dict[str, str]:
        """All that its ``ENV`` set."""
        words = (word for step in self.steps if step.name == "ENV" for word in step.words)
        return dict(word.split("=", 1) for word in words)


class Copy(NamedTuple):
    """A ``COPY``: from which stage ("" for the context), what, and where to."""

    stage: str
    sources: list[str]
    target: str


def copy_of(step: Instruction) -> Copy:
    """Read a ``COPY``."""
    options = [word for word in step.words if word.startswith("--")]
    *sources, target = [word for word in step.words if not word.startswith("--")]
    stage = next((word.partition("=")[2] for word in options if word.startswith("--from=")), "")
    return Copy(stage, sources, target)


def stages(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile in order; the last one is the image."""
    found: list[Stage] = []
    for step in _instructions(path.read_text("utf-8")):
        if step.name == "FROM":
            base, _, name = step.rest.partition(" AS ")
            found.append(Stage(name, base))
        else:
            found[-1].steps.append(step)
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield Instruction(name, rest.strip())
