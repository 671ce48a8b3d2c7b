"""``python -m tests.language [lower | FOLDER]``: check the counts, write lower ones, or list a folder's findings."""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.language.counting import Rules, counted

ROOT: Final = Path(__file__).parent.parent.parent
BASELINE: Final = Path(__file__).with_name("baseline.toml")
KINDS: Final = ("phrase", "error", "opening", "class")
Counts = Mapping[str, Mapping[str, int]]


def main(what: str = "") -> int:
    """Do what is asked for, and return the exit code."""
    rules = Rules()
    counts, found = counted(rules, ROOT)
    allowed: dict[str, dict[str, int]] = tomllib.loads(BASELINE.read_text("utf-8"))
    if what == "lower":
        BASELINE.write_text(written(lowest(allowed, counts)), "utf-8")
        return 0
    if what:
        for one in (one for one in found if str(one.path).startswith(what)):
            sys.stdout.write(f"{one.path}:{one.line}: {one.kind} {one.text!r}; use: {one.use}\n")
        return 0
    risen = list(rises(allowed, counts))
    sys.stderr.writelines(f"error: {one}\n" for one in risen)
    if not risen:
        total = sum((Counter(count) for count in counts.values()), Counter())
        sys.stdout.write(f"language: {', '.join(f'{total[kind]} {kind}' for kind in KINDS)}\n")
        sys.stdout.writelines(f"language: {one}\n" for one in falls(allowed, counts))
    return 1 if risen else 0


def rises(allowed: Counts, counts: Counts) -> Iterator[str]:
    """Yield a line for each count that is higher than allowed; a folder that is not listed has none."""
    for folder, kind, now, most in _pairs(allowed, counts):
        if now > most:
            yield f"{folder}: {now} of kind {kind}, {most} are allowed; see: python -m tests.language {folder}"


def falls(allowed: Counts, counts: Counts) -> Iterator[str]:
    """Yield a line for each count that is lower than allowed."""
    for folder, kind, now, most in _pairs(allowed, counts):
        if now < most:
            yield f"{folder}: {now} of kind {kind}, down from {most}; write it down: python -m tests.language lower"


def lowest(allowed: Counts, counts: Counts) -> dict[str, dict[str, int]]:
    """Return for each count the lower one of both; those that would be zero are left out."""
    made: dict[str, dict[str, int]] = {}
    for folder, kind, now, most in _pairs(allowed, counts):
        if least := min(now, most):
            made.setdefault(folder, {})[kind] = least
    return made


def written(counts: Counts) -> str:
    """Return counts as TOML."""
    lines = ["# Most findings by folder; a count may only fall: python -m tests.language lower"]
    for folder, kinds in counts.items():
        values = ", ".join(f"{kind} = {count}" for kind, count in kinds.items())
        lines.append(f'"{folder}" = {{ {values} }}')
    return "\n".join(lines) + "\n"


def _pairs(allowed: Counts, counts: Counts) -> Iterator[tuple[str, str, int, int]]:
    for folder in sorted({*allowed, *counts}):
        for kind in KINDS:
            yield folder, kind, counts.get(folder, {}).get(kind, 0), allowed.get(folder, {}).get(kind, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
