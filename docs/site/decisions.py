"""The list of decision records, from their titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "adr"
_HEAD: Final = """\
# Decisions

What was decided where somebody would ask why, and what was measured for it.

"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(f"- [{title}]({place.removeprefix('adr/')})\n" for place, title in records())


def records() -> Iterator[tuple[str, str]]:
    """Yield the place of each record in the site, and its title."""
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        title = path.read_text("utf-8").partition("\n")[0]
        yield f"adr/{path.name}", title.removeprefix("# ")
