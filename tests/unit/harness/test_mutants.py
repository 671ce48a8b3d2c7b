"""Every seeded fault is one: it fits this tree, it is still Python, and the tests that should catch it are there."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.process import ROOT
from tests.mutants.copies import Copy, Done
from tests.mutants.seeded import DoesNotApply, Mutant, load
from tests.mutants.trial import Result, borne_out, present

MUTANTS = load()
EVERY = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@EVERY
def test_a_fault_applies_and_the_file_still_parses(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text("utf-8")
    changed = mutant.mutated(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@EVERY
def test_the_tests_that_should_catch_it_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    assert present((*mutant.tests, *mutant.wide), ROOT) == [*mutant.tests, *mutant.wide]


def test_names_are_unique_and_no_area_is_left_out() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30
    areas = Counter(mutant.area for mutant in MUTANTS)
    assert areas.keys() == {"spool", "states", "stores", "transports", "rights"}
    assert min(areas.values()) >= 3


@pytest.mark.parametrize("text", ["nothing", "twice twice"])
def test_a_text_that_is_not_there_once_does_not_apply(text: str, tmp_path: Path) -> None:
    mutant = Mutant("name", "spool", "Promise.", "file.py", "twice", "once", ("tests",))
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(DoesNotApply):
        mutant.apply(tmp_path)
    assert (tmp_path / "file.py").read_text() == text


def test_a_file_that_is_not_there_does_not_apply(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply):
        MUTANTS[0].apply(tmp_path)


def test_the_tests_that_failed_are_named() -> None:
    output = "..F\nERROR    bus.spool:engine.py:1 failed\nFAILED tests/a.py::test_b[1-2] - assert 1 == 2\n1 failed\n"
    assert Done(1, output).failed == ["tests/a.py::test_b[1-2]"]
    assert not Done(0, "3 passed\n").failed


class Clean(Copy):
    """A copy without a fault, in which one test is red."""

    def __init__(self) -> None:
        """Need no tree."""

    def renew(self) -> None:
        """Be as before."""

    def pytest(self, paths: Sequence[str], *, within: float, most_failures: int = 1) -> Done:
        assert (list(paths), within, most_failures) == (["tests/a.py::test_red", "tests/a.py::test_sound"], 1, 0)
        return Done(1, "FAILED tests/a.py::test_red - assert 1 == 2\n")


def test_a_test_that_is_red_anyhow_catches_nothing() -> None:
    red, sound, survivor = (
        Result("red", "spool", "caught", by="tests/a.py::test_red"),
        Result("sound", "spool", "caught", by="tests/a.py::test_sound"),
        Result("survivor", "spool", "SURVIVED"),
    )
    found = borne_out([red, sound, survivor], Clean(), deadline=1)
    assert [result.state for result in found] == ["error", "caught", "SURVIVED"]
    assert "without the fault" in found[0].by
