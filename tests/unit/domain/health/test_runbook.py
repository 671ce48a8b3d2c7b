"""Every rule of alarms has an entry in the runbook, and every entry a rule."""

from __future__ import annotations

import re

from bus.domain.health.rulebook import RULES
from tests.harness.process import ROOT


def test_every_rule_says_what_to_do() -> None:
    page = (ROOT / "docs" / "alarms.md").read_text("utf-8")
    entries = re.findall(r"^### (.+)\n\n(.+)", page, re.MULTILINE)
    assert [name for name, _ in entries] == list(RULES)
