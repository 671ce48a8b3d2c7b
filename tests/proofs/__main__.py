"""``python -m tests.proofs [FILE]``: write the history of proofs as a page."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.process import ROOT
from tests.proofs.history import FOLDER, read
from tests.proofs.page import page_of
from tests.proofs.parts import PARTS


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "proofs.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page_of({part: read(FOLDER / f"{part}.jsonl") for part in PARTS}), "utf-8")
    print(target)


main()
