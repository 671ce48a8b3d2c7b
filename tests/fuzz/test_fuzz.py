"""No input breaks a parser of what strangers send."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.running import fuzz, fuzz_at_length, inputs
from tests.fuzz.targets import NAMES, target
from tests.proofs.figures import Figures, note


@pytest.mark.parametrize("name", NAMES)
def test_examples_and_what_was_found_once(name: str) -> None:
    for content in inputs(name):
        target(name).check(content)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_of_them(name: str, tmp_path: Path) -> None:
    assert fuzz(name, tmp_path, 2, "-runs=20000", "-seed=1") > len(target(name).examples)


@pytest.mark.proof
@pytest.mark.timeout(3 * 3600)
def test_ten_minutes_of_each() -> None:
    """One for each core at a time; a run that was broken off goes on where it was, as long as the code is the same."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        done = threads.map(lambda name: (name, fuzz_at_length(name, 600)), NAMES)
        for name, executions in done:
            print(f"{name}: {executions:,} inputs in ten minutes", flush=True)
            note(Figures(inputs=executions))
