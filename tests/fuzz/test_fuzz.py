"""No input breaks a parser of what strangers send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.running import fuzz, fuzz_at_length, inputs
from tests.fuzz.targets import NAMES, target
from tests.proofs.figures import Figures, note
from tests.proofs.history import this_commit


@pytest.mark.parametrize("name", NAMES)
def test_examples_and_what_was_found_once(name: str) -> None:
    for content in inputs(name):
        target(name).check(content)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_of_them(name: str, tmp_path: Path) -> None:
    assert fuzz(name, tmp_path, 2, "-runs=20000", "-seed=1") > len(target(name).examples)


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_ten_minutes_of_each(name: str) -> None:
    commit, _ = this_commit()
    note(Figures(inputs=fuzz_at_length(name, 600, commit)))
