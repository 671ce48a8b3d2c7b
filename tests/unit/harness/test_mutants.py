"""Every seeded fault is one: it fits this tree, it is still Python, and the tests that should catch it are there."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.process import ROOT
from tests.mutants.copies import Done
from tests.mutants.seeded import DoesNotApply, Mutant, load
from tests.mutants.trial import present

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


def test_the_first_test_that_failed_is_named() -> None:
    output = "..F\nERROR    bus.spool:engine.py:1 failed\nFAILED tests/a.py::test_b[1-2] - assert 1 == 2\n1 failed\n"
    assert Done(1, output).failed == "tests/a.py::test_b[1-2]"
    assert not Done(0, "3 passed\n").failed
