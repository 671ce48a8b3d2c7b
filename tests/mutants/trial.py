"""The trial of one mutant: the tests are run in stages, the nearest first, until one fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.mutants.copies import Copy
from tests.mutants.seeded import DoesNotApply, Mutant

WHOLE: Final = ("tests/unit", "tests/contract", "tests/stateful")
_PASSED: Final = 0
_FAILED: Final = 1
_SHOWN: Final = 4_000

State = Literal["caught", "SURVIVED", "does not apply", "error"]


class Result(msgspec.Struct, frozen=True):
    """What came of a fault.

    Attributes
    ----------
    stage
        Which tests caught it: ``near`` (its own), ``whole`` (unit, contract and stateful) or ``wide``.
    by
        The test that failed first; of an error why nothing is known.
    seconds
        Of all stages together.
    """

    name: str
    area: str
    state: State
    stage: str = ""
    by: str = ""
    seconds: float = 0.0


def attempt(mutant: Mutant, copy: Copy, *, deadline: float) -> Result:
    """Put a fault into a new copy and run the tests against it, for at most ``deadline`` seconds."""
    began = time.monotonic()
    copy.renew()
    try:
        mutant.apply(copy.path)
    except DoesNotApply as error:
        return Result(mutant.name, mutant.area, "does not apply", by=str(error))
    state, stage, by = _tried(mutant, copy, until=began + deadline)
    return Result(mutant.name, mutant.area, state, stage, by, round(time.monotonic() - began, 1))


def borne_out(results: Sequence[Result], copy: Copy, *, deadline: float) -> list[Result]:
    """Return the results, where a test caught nothing that fails on a copy without a fault as well."""
    catching = list(dict.fromkeys(result.by for result in results if result.state == "caught"))
    if not catching:
        return list(results)
    copy.renew()
    done = copy.pytest(catching, within=deadline, most_failures=0)
    if done.code not in (_PASSED, _FAILED):
        raise RuntimeError(f"the tests that caught faults do not run without one:\n{done.output[-_SHOWN:]}")
    return [
        msgspec.structs.replace(result, state="error", by=f"{result.by} fails without the fault, too")
        if result.by in done.failed
        else result
        for result in results
    ]


def present(paths: Sequence[str], tree: Path) -> list[str]:
    """Return those of the paths that a tree has."""
    return [path for path in paths if (tree / path).exists()]


def _tried(mutant: Mutant, copy: Copy, *, until: float) -> tuple[State, str, str]:
    for stage, paths in _stages(mutant, copy.path):
        done = copy.pytest(paths, within=until - time.monotonic())
        if done.code == _FAILED and done.failed:
            return "caught", stage, done.failed[0]
        if done.code != _PASSED:
            said = "too late" if done.code is None else f"pytest ended with {done.code}"
            return "error", stage, f"{said}:\n{done.output[-_SHOWN:]}"
    return "SURVIVED", "", ""


def _stages(mutant: Mutant, tree: Path) -> Iterator[tuple[str, list[str]]]:
    for stage, paths in (("near", mutant.tests), ("whole", WHOLE), ("wide", mutant.wide)):
        if found := present(paths, tree):
            yield stage, found
