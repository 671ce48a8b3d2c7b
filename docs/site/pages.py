"""Pages that are not files of this folder: the reference, and what lies above the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.site import commands, decisions, endpoints, metrics, rules, settings

ROOT: Final = Path(__file__).resolve().parents[2]
WRITTEN: Final[Mapping[str, Callable[[], str]]] = {
    "reference/cli.md": commands.page,
    "reference/http.md": endpoints.page,
    "reference/settings.md": settings.page,
    "reference/metrics.md": metrics.page,
    "reference/alarms.md": rules.page,
    "adr/index.md": decisions.page,
}
"""By their places in the site."""
ABOVE: Final = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
"""Files of the repository's root, by their places in the site."""


def above(place: str) -> str:
    """Return the text of such a file."""
    return (ROOT / ABOVE[place]).read_text("utf-8")
