"""The kill proof is trusted because it catches bugs that were planted on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.kills import KillRun, Plan
from tests.harness.planted import BUGS

PLAN = Plan(messages=900, rate=300, kills=3, seed=7, drain_within=5)


@pytest.mark.proof
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_caught(tmp_path: Path, bug: str) -> None:
    found = KillRun(tmp_path, PLAN, planted=bug).run()
    assert not found.passed
    assert any("lost" in complaint for complaint in found.complaints), found.complaints
