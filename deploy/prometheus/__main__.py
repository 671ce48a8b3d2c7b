"""``python -m deploy.prometheus`` writes the rules anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from deploy.prometheus.rules import document

FILE: Final = Path(__file__).parent / "alerts.yml"
_HEAD: Final = "# Made by make dashboards of bus/domain/health/rulebook.py; docs/alarms.md is the runbook.\n"


def text() -> str:
    """Return what the file has in it."""
    return _HEAD + yaml.safe_dump(document(), sort_keys=False, width=1000)


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
