"""Buses of one and of several processes are compared under the same load."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import sharing
from bench.run import Run, Size

SMALL = Size(messages=1, seconds=0.5, backlog=1, rounds=1)


@pytest.mark.proof
def test_every_case_has_a_p99_of_each_window(tmp_path: Path) -> None:
    cases = tuple(case._replace(rate=50) for case in sharing.CASES)
    found = sharing.compare(Run(tmp_path, SMALL, Path(), lambda _: None), [1, 2], cases)
    assert list(found) == [case.name for case in sharing.CASES]
    assert all(len(windows) == 2 and min(windows) > 0 for of in found.values() for windows in of.values())
