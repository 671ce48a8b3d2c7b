"""Pages that tell of the product as it is; decision records and changes tell of how it was."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.harness.process import ROOT

PAGES: Final[list[Path]] = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(path for path in sorted(ROOT.glob("docs/**/*.md")) if "adr" not in path.parts),
]
